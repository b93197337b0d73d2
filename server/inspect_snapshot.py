"""A snapshot, written out node by node, then its sessions.

Whatever can be read is shown before an error is raised, so that a damaged file still tells what it holds. The
file is read twice, once to count its nodes, so that any size fits in little memory.
"""

import base64
import json
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import attrs

from jute.client_records import Acl, StatPersisted
from jute.primitives import Vector
from jute.record import DecodeError, decode, record
from jute.zxid import format_zxid
from persistence.disk import RealDisk, read_chunks
from persistence.errors import CorruptSnapshot
from persistence.file_names import Compression, parse_snapshot
from persistence.snapshot_compression import GZIP_MAGIC, SNAPPY_MAGIC, unpacked
from persistence.snapshot_format import FileDecoder, Node, Session, Trailers
from server.dump_values import json_data, shown_acl, utc_time

OPEN_ACL = -1  # the id of world:anyone:cdrwa, which is not in the file's list
REMEDY = (
    "A server that meets such a snapshot at its start takes the next older one and replays more of the log"
)

_INT_BYTES = 4
_LONG_MASK = (1 << 64) - 1


@record
class AclList:
    """An ACL as snapshots hold it."""

    entries: Vector[Acl]


@attrs.frozen
class NodeDump:
    """One node, decoded."""

    path: str
    data: bytes | None
    acl: str
    stat: StatPersisted


class SnapshotDump:
    """The parts of one snapshot, to be taken in this order; `last_path` is the last node read."""

    def __init__(self, file: Path) -> None:
        self._decoder = FileDecoder(unpacked_chunks(file))
        self._acls: dict[int, str] = {}
        self.last_path = ""

    def sessions(self) -> list[Session]:
        return self._decoder.sessions()

    def nodes(self) -> Iterator[NodeDump]:
        self._acls = {acl_id: _read_acl(wire) for acl_id, wire in self._decoder.acls()}
        self._acls[OPEN_ACL] = "world:anyone:cdrwa"
        for node in self._decoder.nodes():
            dump = self._read_node(node)
            self.last_path = dump.path
            yield dump

    def trailers(self) -> Trailers:
        return self._decoder.trailers()

    def _read_node(self, node: Node) -> NodeDump:
        path, data, acl_id, stat = node
        is_null = data == b"\xff" * _INT_BYTES
        return NodeDump(
            path.decode(errors="backslashreplace"),
            None if is_null else data[_INT_BYTES:],
            self._acls.get(acl_id, f"missing ACL {acl_id}"),
            decode(StatPersisted, stat)[0],
        )


def unpacked_chunks(file: Path) -> Iterator[bytes]:
    """The snapshot's bytes, unpacked as its first bytes demand, whatever the file is called."""
    chunks = read_chunks(RealDisk(), file)
    first = next(chunks, b"")
    compression = Compression.NONE
    if first.startswith(GZIP_MAGIC):
        compression = Compression.GZIP
    elif first.startswith(SNAPPY_MAGIC):
        compression = Compression.SNAPPY
    return unpacked(chain([first], chunks), compression)


def inspect_snapshot(file: Path, *, as_json: bool = False, with_data: bool = False) -> Iterator[str]:
    """The lines of the dump; CorruptSnapshot behind the last node that could be read."""
    dump = SnapshotDump(file)
    lines = _json_lines(dump) if as_json else _text_lines(dump, file, with_data=with_data)
    try:
        yield from lines
    except CorruptSnapshot as problem:
        where = f"{problem.problem}, behind {dump.last_path}" if dump.last_path else problem.problem
        raise CorruptSnapshot(where, file=file, remedy=REMEDY) from None


def _text_lines(dump: SnapshotDump, file: Path, *, with_data: bool) -> Iterator[str]:
    sessions = dump.sessions()
    yield f"ZNode Details (count={_count_nodes(file)}):"
    ephemerals: Counter[int] = Counter()
    last_zxid = 0
    for node in dump.nodes():
        ephemerals[node.stat.ephemeral_owner] += 1
        last_zxid = max(last_zxid, node.stat.mzxid, node.stat.pzxid)
        yield from _node_lines(node, with_data=with_data)
    yield "----"
    yield "Session Details (sid, timeout, ephemeralCount):"
    for session_id, timeout_ms in sessions:
        yield f"{_hexadecimal(session_id)}, {timeout_ms}, {ephemerals[session_id]}"
    trailers = dump.trailers()
    if trailers.digest is not None:
        yield f"Target zxid digest is: {trailers.digest[0]:x}, {trailers.digest[1]}"
    yield "----"
    name = parse_snapshot(file)
    last_zxid = max(last_zxid, name.zxid if name is not None else 0, trailers.last_zxid or 0)
    yield f"Last zxid: {format_zxid(last_zxid)}"


def _count_nodes(file: Path) -> int:
    """How many nodes can be read; the second reading tells what is wrong behind them."""
    count = 0
    dump = SnapshotDump(file)
    try:
        dump.sessions()
        for _ in dump.nodes():
            count += 1
    except CorruptSnapshot:
        pass
    return count


def _node_lines(node: NodeDump, *, with_data: bool) -> Iterator[str]:
    stat = node.stat
    yield "----"
    yield node.path if node.path.isprintable() else repr(node.path)
    yield f"  cZxid = {_hexadecimal(stat.czxid)}"
    yield f"  ctime = {utc_time(stat.ctime)}"
    yield f"  mZxid = {_hexadecimal(stat.mzxid)}"
    yield f"  mtime = {utc_time(stat.mtime)}"
    yield f"  pZxid = {_hexadecimal(stat.pzxid)}"
    yield f"  cversion = {stat.cversion}"
    yield f"  dataVersion = {stat.version}"
    yield f"  aclVersion = {stat.aversion}"
    yield f"  ephemeralOwner = {_hexadecimal(stat.ephemeral_owner)}"
    yield f"  acl = {node.acl}"
    if with_data:
        yield f"  data = {base64.b64encode(node.data or b'').decode()}"
    else:
        yield f"  dataLength = {len(node.data or b'')}"


def _json_lines(dump: SnapshotDump) -> Iterator[str]:
    for session_id, timeout_ms in dump.sessions():
        yield json.dumps({"session": format_zxid(session_id), "timeout_ms": timeout_ms})
    for node in dump.nodes():
        stat = attrs.asdict(node.stat)  # type: ignore[arg-type]
        zxids = {name: format_zxid(stat.pop(name)) for name in ("czxid", "mzxid", "pzxid", "ephemeral_owner")}
        line = {"path": node.path, **json_data(node.data), "acl": node.acl, **zxids, **stat}
        yield json.dumps(line)
    trailers = dump.trailers()
    end: dict[str, str | int] = {}
    if trailers.digest is not None:
        end |= {"digest_zxid": format_zxid(trailers.digest[0]), "digest": trailers.digest[1]}
    if trailers.last_zxid is not None:
        end["last_zxid"] = format_zxid(trailers.last_zxid)
    yield json.dumps(end)


def _read_acl(wire: bytes) -> str:
    try:
        return shown_acl(decode(AclList, wire)[0].entries)
    except DecodeError as problem:
        return f"unreadable ({problem})"


def _hexadecimal(number: int) -> str:
    return f"{number & _LONG_MASK:#016x}"
