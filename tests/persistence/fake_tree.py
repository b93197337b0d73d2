"""A tree that only remembers what it was given, and the payloads to give it."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from struct import pack
from typing import Self, TypeVar, TypeVarTuple

import trio

from persistence.disk import Disk
from persistence.log_format import zxid_of
from persistence.recovery import Recovered, RecoveryOptions, recover
from persistence.snapshot_format import Acl, Node, Session

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

DATA = Path("/data/version-2")
STAT = bytes(range(60))
WORLD = bytes.fromhex("000000010000001f00000005776f726c6400000006616e796f6e65")


def payload(zxid: int, body: bytes = b"body") -> bytes:
    """A logged transaction: header and something behind it."""
    return pack(">qiqqi", 0x1234, 7, zxid, 1_700_000_000_000, 5) + body


def payloads(first: int, last: int) -> list[bytes]:
    return [payload(zxid) for zxid in range(first, last + 1)]


class FakeTree:
    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.acls: list[Acl] = []
        self.nodes: list[Node] = [(b"/", b"\0\0\0\0", -1, STAT)]
        self.digest = (0, 0)
        self.zxid = 0
        self.replayed: list[bytes] = []
        self.resets = 0

    def last_zxid(self) -> int:
        return self.zxid

    def snapshot_sessions(self) -> list[Session]:
        return self.sessions

    def snapshot_acls(self) -> list[Acl]:
        return self.acls

    def snapshot_nodes(self) -> Iterator[Node]:
        return iter(self.nodes)

    def snapshot_digest(self) -> tuple[int, int]:
        return self.digest

    def view(self) -> Self:
        return self

    def reset(self) -> None:
        resets = self.resets + 1
        self.__init__()  # type: ignore[misc]
        self.resets = resets

    def restore_sessions(self, sessions: Iterable[Session]) -> None:
        self.sessions = list(sessions)

    def restore_acls(self, acls: Iterable[Acl]) -> None:
        self.acls = list(acls)

    def restore_nodes(self, nodes: Iterable[Node]) -> None:
        self.nodes = list(nodes)

    def restore_digest(self, zxid: int, digest: int) -> None:
        self.digest = (zxid, digest)

    def restored(self, zxid: int) -> None:
        self.zxid = zxid

    def caught_up(self) -> None:
        pass

    def replay(self, payload: bytes) -> None:
        self.replayed.append(payload)
        self.zxid = zxid_of(payload)

    @property
    def replayed_zxids(self) -> list[int]:
        return [zxid_of(payload) for payload in self.replayed]


def recovered(
    disk: Disk,
    options: RecoveryOptions = RecoveryOptions(),  # noqa: B008 - a frozen value
    snap_dir: Path = DATA,
    log_dir: Path = DATA,
) -> tuple[Recovered, FakeTree]:
    tree = FakeTree()
    return recover(disk, snap_dir, log_dir, tree, options), tree


async def inline(fn: Callable[[*Ts], T], *args: *Ts) -> T:
    """An Offload for a disk that never blocks."""
    await trio.lowlevel.cancel_shielded_checkpoint()
    return fn(*args)
