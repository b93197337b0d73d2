"""zkSnapShotToolkit.sh: prints a snapshot node by node, then its sessions; or as JSON for ncdu."""

import base64
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from jute.client_records import StatPersisted
from jute.java_hash_order import hash_order, long_hash
from jute.java_text import java_date, java_hex
from persistence.file_names import parse_snapshot
from server.tools.snapshot_tree import NotLoaded, SnapshotTree, child_path, load, refuse

USAGE = """\
USAGE: SnapshotFormatter [-d|-json] snapshot_file
       -d dump the data for each znode
       -json dump znode info in json format"""
EXIT_INVALID = 2

_SESSION_BUCKETS = 16
_FIRST_INODE = 1001
_MASK64 = (1 << 64) - 1
# What JSON text cannot hold as it is; everything above ASCII stays.
_JSON_ESCAPES = str.maketrans(
    {chr(code): f"\\u{code:04X}" for code in range(32)}
    | {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
)


def main(arguments: Sequence[str], _environ: Mapping[str, str]) -> int:
    """Run zkSnapShotToolkit.sh with these arguments."""
    rest, flags = list(arguments), set()
    while rest and rest[0] in ("-d", "-json"):
        flags.add(rest.pop(0))
    if len(rest) != 1:
        return refuse(USAGE, EXIT_INVALID)
    file = Path(rest[0])
    if problem := unreadable(file):
        return refuse(problem, EXIT_INVALID)
    if len(flags) > 1:
        return refuse("Cannot specify both data dump (-d) and json mode (-json) in same call", EXIT_INVALID)
    try:
        snapshot = load(file)
    except NotLoaded as reason:
        return refuse(reason)
    if "-json" in flags:
        sys.stdout.writelines(json_pieces(snapshot, int(time.time() * 1000)))
        return 0
    name = parse_snapshot(file)
    for line in text_lines(snapshot, -1 if name is None else name.zxid, with_data="-d" in flags):
        print(line)
    return 0


def unreadable(file: Path) -> str | None:
    """What is wrong with the file's name, in the tool's words."""
    where = file.absolute()
    if not file.exists():
        return f"File '{where}' does not exist."
    if not os.access(file, os.R_OK):
        return f"Read permission is denied on the file '{where}'"
    return f"'{where}' is a directory. it must be a file." if file.is_dir() else None


def text_lines(snapshot: SnapshotTree, zxid_in_name: int, *, with_data: bool) -> Iterator[str]:
    """All nodes, each before its children, then the sessions and the last zxid that shows anywhere."""
    last_zxid = zxid_in_name
    yield f"ZNode Details (count={snapshot.tree.node_count}):"
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        stat = snapshot.stat(path)
        last_zxid = max(last_zxid, stat.mzxid, stat.pzxid)
        yield "----"
        yield path
        yield from _stat_lines(stat)
        if with_data:
            yield f"  data = {base64.b64encode(snapshot.data(path)).decode()}"
        else:
            yield f"  dataLength = {snapshot.data_length(path)}"
        waiting += [child_path(path, name) for name in reversed(snapshot.children(path))]
    yield "----"
    yield "Session Details (sid, timeout, ephemeralCount):"
    for session in hash_order(snapshot.sessions, long_hash, _SESSION_BUCKETS):
        yield f"{_hex(session)}, {snapshot.sessions[session]}, {snapshot.ephemerals_of(session)}"
    yield "----"
    yield f"Last zxid: 0x{java_hex(last_zxid)}"


def _stat_lines(stat: StatPersisted) -> Iterator[str]:
    yield f"  cZxid = {_hex(stat.czxid)}"
    yield f"  ctime = {_date(stat.ctime)}"
    yield f"  mZxid = {_hex(stat.mzxid)}"
    yield f"  mtime = {_date(stat.mtime)}"
    yield f"  pZxid = {_hex(stat.pzxid)}"
    yield f"  cversion = {stat.cversion}"
    yield f"  dataVersion = {stat.version}"
    yield f"  aclVersion = {stat.aversion}"
    yield f"  ephemeralOwner = {_hex(stat.ephemeral_owner)}"


def _hex(number: int) -> str:
    return f"{number & _MASK64:#016x}"


def _date(time_ms: int) -> str:
    try:
        return java_date(time_ms, None)
    except OverflowError:  # a file may hold any number
        return f"{time_ms}ms"


def json_pieces(snapshot: SnapshotTree, now_ms: int) -> Iterator[str]:
    """The form that ncdu reads: a node with children is a list that begins with the node itself."""
    yield f'[1,0,{{"progname":"SnapshotFormatter.java","progver":"0.01","timestamp":{now_ms}}}'
    inode = _FIRST_INODE
    waiting: list[str | None] = ["/"]  # None ends the list of the node before
    while waiting:
        path = waiting.pop()
        if path is None:
            yield "]"
            continue
        children = snapshot.children(path)
        name = (path.rpartition("/")[2] or "/").translate(_JSON_ESCAPES)
        size = snapshot.data_length(path)
        opening = "[" if children else ""
        yield f',{opening}{{"name":"{name}","asize":{size},"dsize":{size},"dev":0,"ino":{inode}}}'
        inode += 1
        if children:
            waiting.append(None)
            waiting += [child_path(path, child) for child in reversed(children)]
    yield "]"
