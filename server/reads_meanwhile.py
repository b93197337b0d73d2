"""Reads that are answered while a transaction is applied in slices: they show the state before it.

Nobody may see a part of a transaction, and nobody should wait for the rest of it. What it has changed so far
is kept as it was (`DataTree.before`); all else is still in the tree. Only the commonest reads are answered
so, and not the list of a node's children once they have begun to change: the rest waits until it is whole.

A watch on a node that has changed already fires when the transaction is whole (or is set then, if a later
part of it has undone the change); one on any other node is set at once, and fires when its turn comes. A
watch that is there already is the same one: each fires once. So whoever wants to watch a node of which some
are being told right now waits. A connection that has heard of a part of the transaction waits too, because
it must not see the state before any more (client_protocol.py).
"""

from typing import TYPE_CHECKING, Final

from jute.errors import BadArguments, NoNode
from jute.opcodes import OpCode
from server.data_tree import STAT_BYTES, Before, mzxid_of
from server.paths import ROOT, canonical
from server.read_requests import get_children, get_children2, judge_read, path_and_watch
from server.slices import long_slice_steps

if TYPE_CHECKING:
    from server.client_protocol import ClientConnection

_GET_DATA: Final = int(OpCode.GET_DATA)
_EXISTS: Final = int(OpCode.EXISTS)
_GET_CHILDREN: Final = int(OpCode.GET_CHILDREN)
_GET_CHILDREN2: Final = int(OpCode.GET_CHILDREN2)
READS_MEANWHILE: Final = frozenset({_GET_DATA, _EXISTS, _GET_CHILDREN, _GET_CHILDREN2})


def read_before(
    conn: "ClientConnection", before: Before, op: int, data: bytes, at: int, end: int
) -> bytes | None:
    """The body of the reply, or None if the read has to wait; raises as read_requests.py says."""
    asked, watch = path_and_watch(data, at, end)
    path = asked or ROOT
    if op in (_GET_CHILDREN, _GET_CHILDREN2):
        if path in before.bodies:
            return None
        return (
            get_children(conn, data, at, end) if op == _GET_CHILDREN else get_children2(conn, data, at, end)
        )
    tree = conn.pipeline.tree
    is_touched = path in before.bodies
    body = before.bodies[path] if is_touched else tree.bodies.get(path)
    if body is not None:
        acl = before.acls.get(path) if is_touched else tree.acls.get(path)
        if acl is not None:
            judge_read(conn, acl)
    elif op == _GET_DATA:
        raise NoNode
    elif b"\x00" in asked:
        raise BadArguments("a path has no NUL character")
    if watch and not _watch(conn, before, asked):
        return None
    if body is None:
        raise NoNode
    return body if op == _GET_DATA else body[-STAT_BYTES:]


def _watch(conn: "ClientConnection", before: Before, path: bytes) -> bool:
    """Set a watch on a node as it was; False if the read has to wait."""
    tree, watches, late = conn.pipeline.tree, conn.pipeline.watches, before.late_watches
    if path not in before.bodies:
        watches.watch_data(path if path in tree.bodies else canonical(path), conn)
    elif watches.is_telling_of(path):
        return False
    elif not _has_fired(before.bodies[path], tree.bodies.get(path)):
        watches.watch_data(path, conn)
    elif (conn, path) not in late:
        if len(late) >= long_slice_steps():  # all of them are set, or fire, in one turn
            return False
        late[conn, path] = before.bodies[path] is not None
    return True


def _has_fired(before: bytes | None, now: bytes | None) -> bool:
    """Whether watches of a node's data have fired: not if only its children or its ACL have changed."""
    if before is None or now is None:
        return before is not now
    return mzxid_of(before) != mzxid_of(now)
