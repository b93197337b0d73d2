"""Is a transaction the right decision about a request, in the state before it?"""

import attrs

from jute.client_records import CheckVersionRequest, CreateRequest, DeleteRequest, SetDataRequest
from jute.errors import BadVersion, NoChildrenForEphemerals, NodeExists, NoNode, NotEmpty
from jute.opcodes import CreateMode, OpCode
from jute.txn_records import (
    CreateContainerTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    SetDataTxn,
    TxnRecord,
)
from tests.sim.model import Entry, History, Node, parent_of, parts_of

Operation = CreateRequest | SetDataRequest | DeleteRequest | CheckVersionRequest


def judge(
    history: History, op: int, operations: tuple[Operation, ...], entry: Entry, before: int
) -> str | None:
    """Is this transaction what the request calls for in the state before it? If not, why."""
    record = entry.record
    if op != OpCode.MULTI:
        return _judge_one(history, operations[0], record, before, {}, entry)
    if not isinstance(record, MultiTxn):
        return "not a multi"
    overlay: dict[str, Node | None] = {}
    parts = [part for _, part in parts_of(record)]
    if len(parts) != len(operations):
        return "a multi with another number of parts"
    failed = next((i for i, part in enumerate(parts) if isinstance(part, ErrorTxn) and part.err), None)
    for operation, part in list(zip(operations, parts, strict=True))[: None if failed is None else failed]:
        if failed is None:
            problem = _judge_one(history, operation, part, before, overlay, entry)
            if problem:
                return problem
        else:
            errors = _errors(history, operation, before, overlay)
            if errors:
                return f"a part before the one that failed should have failed with {errors}"
            _overlay(history, operation, before, overlay, entry)
    if failed is not None:
        return _judge_one(history, operations[failed], parts[failed], before, overlay, entry)
    return None


def _judge_one(
    history: History,
    operation: Operation,
    record: TxnRecord | None,
    before: int,
    overlay: dict[str, Node | None],
    entry: Entry,
) -> str | None:
    errors = _errors(history, operation, before, overlay)
    if isinstance(record, ErrorTxn):
        return None if record.err in errors else f"error {record.err}, right would be {errors or 'none'}"
    if errors:
        return f"should have failed with {errors}"
    problem = _compare(history, operation, record, before, overlay)
    _overlay(history, operation, before, overlay, entry)
    return problem


def _look(history: History, path: str, before: int, overlay: dict[str, Node | None]) -> Node | None:
    return overlay[path] if path in overlay else history.node(path, before)


def _errors(
    history: History, operation: Operation, before: int, overlay: dict[str, Node | None]
) -> list[int]:
    """Every error that would be right. Most requests have one mistake at a time."""
    path = operation.path or ""
    if isinstance(operation, CreateRequest):
        parent = _look(history, parent_of(path), before, overlay)
        if parent is None:
            return [NoNode.code]
        errors = [NoChildrenForEphemerals.code] if parent.owner else []
        if (
            not CreateMode(operation.flags).is_sequential
            and _look(history, path, before, overlay) is not None
        ):
            errors.append(NodeExists.code)
        return errors
    node = _look(history, path, before, overlay)
    if node is None:
        return [NoNode.code]
    errors = [BadVersion.code] if operation.version not in (-1, node.version) else []
    if isinstance(operation, DeleteRequest) and node.children:
        errors.append(NotEmpty.code)
    return errors


def _path_made(
    history: History, operation: CreateRequest, before: int, overlay: dict[str, Node | None]
) -> str:
    path = operation.path or ""
    if not CreateMode(operation.flags).is_sequential:
        return path
    parent = _look(history, parent_of(path), before, overlay)
    assert parent is not None
    return f"{path}{parent.creates:010d}"


def _compare(
    history: History,
    operation: Operation,
    record: TxnRecord | None,
    before: int,
    overlay: dict[str, Node | None],
) -> str | None:
    match operation, record:
        case CreateRequest(), CreateTxn(path, data, _, is_ephemeral, _):
            expected = _path_made(history, operation, before, overlay)
            if (path, data or b"") != (expected, operation.data or b""):
                return f"creates {path}, expected was {expected}"
            if CreateMode(operation.flags).is_container:
                return "is no container, against what was asked"
            if is_ephemeral != CreateMode(operation.flags).is_ephemeral:
                return "is ephemeral, or is not, against what was asked"
        case CreateRequest(), CreateContainerTxn(path, data, _, _):
            if (path, data or b"") != (operation.path, operation.data or b""):
                return f"creates {path}, expected was {operation.path}"
            if not CreateMode(operation.flags).is_container:
                return "is a container, against what was asked"
        case SetDataRequest(), SetDataTxn(path, data, version):
            node = _look(history, operation.path or "", before, overlay)
            assert node is not None
            if (path, data or b"", version) != (operation.path, operation.data or b"", node.version + 1):
                return "sets something else"
        case DeleteRequest(), DeleteTxn(path):
            if path != operation.path:
                return "deletes something else"
        case CheckVersionRequest(), _:
            pass
        case _:
            return "does something else"
    return None


def _overlay(
    history: History, operation: Operation, before: int, overlay: dict[str, Node | None], entry: Entry
) -> None:
    """What the operations behind this one in the same multi find."""
    path = operation.path or ""
    zxid = entry.zxid
    if isinstance(operation, CreateRequest):
        path = _path_made(history, operation, before, overlay)
        owner = entry.header.client_id if CreateMode(operation.flags).is_ephemeral else 0
        overlay[path] = Node(operation.data or b"", zxid, zxid, 0, 0, 0, owner, zxid, 0, frozenset())
        parent = _look(history, parent_of(path), before, overlay)
        assert parent is not None
        children = parent.children | {path.rpartition("/")[2]}
        overlay[parent_of(path)] = attrs.evolve(parent, creates=parent.creates + 1, children=children)
    elif isinstance(operation, SetDataRequest):
        node = _look(history, path, before, overlay)
        assert node is not None
        overlay[path] = attrs.evolve(node, version=node.version + 1)
    elif isinstance(operation, DeleteRequest):
        overlay[path] = None
        parent = _look(history, parent_of(path), before, overlay)
        assert parent is not None
        children = parent.children - {path.rpartition("/")[2]}
        overlay[parent_of(path)] = attrs.evolve(parent, children=children)
