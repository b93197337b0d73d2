"""A transaction applied to the tree gives the body of its reply; watches fire on the way.

Applying never fails. While the log is replayed over a snapshot that was taken under load, a transaction may
meet its own effect (NodeExists, NoNode): that is expected there and changes only what the rules below say.
Held by tests/server/test_apply_txn.py::test_replaying_a_suffix_twice_changes_nothing.
"""

from struct import Struct
from typing import Final

from librt.strings import BytesWriter, write_i32_be

from jute.errors import NodeExists, NoNode, RuntimeInconsistency, SessionMoved, ZkError
from server.data_tree import STAT_BYTES, DataTree
from server.paths import parent_of
from server.txns import (
    CHECK,
    CLOSE_SESSION,
    CREATE,
    CREATE2,
    CREATE_SESSION,
    CREATES,
    DATA_CHANGES,
    DELETES,
    ERROR,
    MULTI,
    RECONFIG,
    SET_ACL,
    Args,
    Txn,
)

_MULTI_HEADER: Final = Struct(">i?i")
_MULTI_ERROR: Final = Struct(">i?ii")
_MULTI_END: Final = _MULTI_HEADER.pack(-1, True, -1)


def apply_txn(tree: DataTree, txn: Txn) -> tuple[int, bytes]:
    """Change the tree; returns the error code and the body of the reply to whoever asked."""
    err, body, type_ = 0, b"", txn.type
    try:
        if type_ == MULTI:
            body = _apply_multi(tree, txn)
        elif type_ == ERROR:
            err = txn.args[0]
        else:
            body = _apply_one(tree, type_, txn.args, txn)
    except ZkError as failure:
        err = failure.code
    if txn.zxid > tree.last_zxid:  # after the change: a snapshot named by this zxid must contain it
        tree.last_zxid = txn.zxid
    return err, body


def _apply_one(tree: DataTree, type_: int, args: Args, txn: Txn) -> bytes:
    if type_ in DATA_CHANGES:
        path, data, version = args
        body = tree.set_data(path, data, version, txn.zxid, txn.time_ms)
        return body if type_ == RECONFIG else body[-STAT_BYTES:]
    if type_ in CREATES:
        return _apply_create(tree, type_, args, txn)
    if type_ in DELETES:
        tree.delete(args[0], txn.zxid)
    elif type_ == SET_ACL:
        path, acl, version = args
        return tree.set_acl(path, acl, version)[-STAT_BYTES:]
    elif type_ == CREATE_SESSION:
        tree.session_timeouts_ms[txn.session] = args[0]
    elif type_ == CLOSE_SESSION:
        _close_session(tree, txn)
    else:
        assert type_ == CHECK, type_
    return b""


def _apply_create(tree: DataTree, type_: int, args: Args, txn: Txn) -> bytes:
    path, data, acl, owner, parent_cversion = args
    try:
        body = tree.create(path, data, acl, owner, parent_cversion, txn.zxid, txn.time_ms)
    except NodeExists:  # replayed: the parent may have been saved before the node was
        tree.note_create(parent_of(path), parent_cversion, txn.zxid)
        raise
    reply = BytesWriter()
    write_i32_be(reply, len(path))
    reply.write(path)
    if type_ != CREATE:
        reply.write(body[-STAT_BYTES:])
    return reply.getvalue()


def _close_session(tree: DataTree, txn: Txn) -> None:
    """Delete what the transaction names, then whatever else the session owns here."""
    tree.session_timeouts_ms.pop(txn.session, None)
    named, owned = txn.args[0] or (), tree.ephemerals.get(txn.session, ())
    for path in dict.fromkeys([*named, *owned]):
        try:
            tree.delete(path, txn.zxid)
        except NoNode:
            continue  # already deleted by its owner


def _apply_multi(tree: DataTree, txn: Txn) -> bytes:
    """All operations or none: one error among them makes every result an error."""
    failed = any(type_ == ERROR for type_, _ in txn.args)
    results = _failed_results(txn) if failed else _operation_results(tree, txn)
    return b"".join(results) + _MULTI_END


def _failed_results(txn: Txn) -> list[bytes]:
    results, passed = [], False
    for type_, args in txn.args:
        code = args[0] if type_ == ERROR else RuntimeInconsistency.code if passed else 0
        if code == SessionMoved.code:
            raise SessionMoved  # no operation has failed: the whole of it must not be answered here
        passed = passed or type_ == ERROR
        results.append(_MULTI_ERROR.pack(-1, False, code, code))
    return results


def _operation_results(tree: DataTree, txn: Txn) -> list[bytes]:
    results = []
    for type_, args in txn.args:
        try:
            body = _apply_one(tree, type_, args, txn)
        except ZkError as failure:
            results.append(_MULTI_ERROR.pack(-1, False, failure.code, failure.code))
            continue
        shown = CREATE2 if type_ in CREATES and type_ != CREATE else type_
        results.append(_MULTI_HEADER.pack(shown, False, 0) + body)
    return results
