"""Every difference between the two servers that is meant, with its reason and the requests that show it.

The random conversations of the differential test never ask for these: after most of them the servers' trees
differ for good, or one server is gone. Here each is asked on its own, so that the table cannot say what is
no longer true.

Not differences, because the protocol promises nothing about them, and therefore sorted before they are
compared (answers.py, sides.py): the order of children, of a session's ephemerals
and of their deletion when it closes, of a client's own ids, and whether an auth reply overtakes others.

Nor are the races of the reference between checking a request and applying the ones before it. Requests that
are sent without waiting for replies are checked against
    the ACL that a node has, not the one that a setACL under way will give it;
    the usage of a quota as it is, not as it will be;
    what a multi would have done before it broke off over an ACL entry without an id;
    an ephemeral where createContainer with an ephemeral's flags is making a container.
Triokeeper checks against what will be, quotas excepted. So these are only asked one at a time.
"""

from typing import Final

import attrs

from protocol.differential.values import OPEN_ACL, WIDE_ID
from support.opcodes import Op
from support.raw_client import wire_buffer, wire_int, wire_long, wire_string, wire_vector

DIES: Final = "the server ends"

_NOT_DELETE: Final = wire_vector([wire_int(31 & ~8) + wire_string("world") + wire_string("anyone")])
_WIDE: Final = wire_vector(
    wire_int(31) + wire_string(scheme) + wire_string(name)
    for scheme, name in (("digest", WIDE_ID), ("world", "anyone"))
)


def _created(path: str, data: bytes | None = b"", *, acl: bytes = OPEN_ACL, flags: int = 0) -> bytes:
    return wire_string(path) + wire_buffer(data) + acl + wire_int(flags)


def _multi(*operations: tuple[Op, bytes]) -> bytes:
    parts = [wire_int(op) + b"\x00" + wire_int(-1) + body for op, body in operations]
    return b"".join(parts) + wire_int(-1) + b"\x01" + wire_int(-1)


@attrs.frozen
class IntendedDifference:
    """Requests of one client on fresh servers; the last is answered differently."""

    what: str
    why: str
    requests: tuple[tuple[Op, bytes], ...]
    reference: int | str | bytes  # the first error in the last reply, the id in an ACL, or DIES
    triokeeper: int | bytes


INTENDED: Final = (
    IntendedDifference(
        what="deleteContainer deletes a plain node",
        why="It is meant for the server's own reaper: a client must not delete what is no container.",
        requests=((Op.CREATE, _created("/a")), (Op.DELETE_CONTAINER, wire_buffer(b"/a"))),
        reference=0,
        triokeeper=-103,
    ),
    IntendedDifference(
        what="deleteContainer deletes where the client may not delete",
        why="The reference does not look at ACLs here, which lets everybody delete every empty container.",
        requests=(
            (Op.CREATE, _created("/a", acl=_NOT_DELETE)),
            (Op.CREATE_CONTAINER, _created("/a/k", flags=4)),
            (Op.DELETE_CONTAINER, wire_buffer(b"/a/k")),
        ),
        reference=0,
        triokeeper=-102,
    ),
    IntendedDifference(
        what="createContainer with the flags of an ephemeral",
        why="A container is no ephemeral. To the reference it is one until it is applied, as an operation "
        "behind it in the same multi shows: it can have no children, and closing the session deletes it.",
        requests=(
            (
                Op.MULTI,
                _multi(
                    (Op.CREATE_CONTAINER, _created("/k", flags=1)),
                    (Op.CREATE, _created("/k/a")),
                ),
            ),
        ),
        reference=-108,
        triokeeper=0,
    ),
    IntendedDifference(
        what="a character beyond the basic plane in an ACL of a multi",
        why="The reference cannot read its own encoding of such characters, and so loses them.",
        requests=(
            (Op.MULTI, _multi((Op.CREATE, _created("/a", acl=_WIDE)))),
            (Op.GET_ACL, wire_string("/a")),
        ),
        reference="\ufffd\ufffd:x".encode(),
        triokeeper="\ud83d\ude00:x".encode("utf-8", "surrogatepass"),
    ),
    IntendedDifference(
        what="createTTL with flags that mean no time to live and a negative one",
        why="A request must not stop the server.",
        requests=((Op.CREATE_TTL, _created("/a") + wire_long(-1)),),
        reference=DIES,
        triokeeper=-8,
    ),
    IntendedDifference(
        what="zookeeper_limits directly below /zookeeper/quota",
        why="A request must not stop the server. The root has no quota; the node is an ordinary one.",
        requests=((Op.CREATE, _created("/zookeeper/quota/zookeeper_limits")),),
        reference=DIES,
        triokeeper=0,
    ),
    IntendedDifference(
        what="deleting a zookeeper_limits directly below /zookeeper",
        why="A request must not stop the server.",
        requests=(
            (Op.CREATE, _created("/zookeeper/zookeeper_limits")),
            (Op.DELETE, wire_string("/zookeeper/zookeeper_limits") + wire_int(-1)),
        ),
        reference=DIES,
        triokeeper=0,
    ),
    IntendedDifference(
        what="statistics of a quota that are none",
        why="A request must not stop the server. Junk in zookeeper_stats is replaced by the true usage.",
        requests=(
            (Op.CREATE, _created("/a")),
            (Op.CREATE, _created("/zookeeper/quota/a")),
            (Op.CREATE, _created("/zookeeper/quota/a/zookeeper_limits", b"count=5,bytes=5")),
            (Op.CREATE, _created("/zookeeper/quota/a/zookeeper_stats")),
            (
                Op.SET_DATA,
                wire_string("/zookeeper/quota/a/zookeeper_stats") + wire_buffer(b"junk") + wire_int(-1),
            ),
            (Op.SET_DATA, wire_string("/a") + wire_buffer(b"data") + wire_int(-1)),
        ),
        reference=DIES,
        triokeeper=0,
    ),
)
