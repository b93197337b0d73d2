"""Random paths, data, ACLs, versions and flags, most of them likely to hit something, some of them hostile.

Names tell what may be created under them, so that what the servers deliberately do differently
(table.py) is never asked by accident:
    k...   containers and nodes with a time to live only; open to everyone
    e...   ephemerals only
    zz     never created
"""

import random
from collections.abc import Sequence
from typing import Final, TypeVar

import attrs

from protocol.differential.world import World
from support.raw_client import wire_int, wire_string, wire_vector

T = TypeVar("T")


NAMES: Final = (b"a", b"b", b"c")
SEQUENCE_PREFIXES: Final = (b"s-", b"")
LIMITS, STATS = b"zookeeper_limits", b"zookeeper_stats"
QUOTA: Final = b"/zookeeper/quota"
_UNDELETABLE: Final = (b"/", b"/zookeeper", QUOTA, b"/zookeeper/config")

_OK_ODD_NAMES: Final = ("...", ".a", "a.", "a b", "\u00e4", "\u00a0", "\uf900", "\uffef", "\u20ac", "%s")
_BAD_NAMES: Final = (
    ".",
    "..",
    "",
    "a//b",
    "./a",
    "a\x00",
    "\x01",
    "a\x1f",
    "\x7f",
    "\x80",
    "\x9f",
    "\ud800",
    "\udfff",
    "\ue000",
    "\uf8ff",
    "\ufff0",
    "\uffff",
    "\U0001f600",
)
_BAD_PATHS: Final = (
    b"a",
    b"a/b",
    b"//",
    b"//a",
    b"/a/",
    b"/a/b/",
    b" ",
    b"/.",
    b"/../a",
    b"\x00",
    b"/\x00/a",
)
_ODD_BYTES: Final = (
    b"\x00\x01/.a\x7f\x80\xbf\xc0\xc2\xc3\xdf\xe0\xa4\xed\x9f\xa0\xef\xbf\xbe\xf0\x90\xf4\x8f\xf5\xfe\xff"
)

_QUOTA_WAYS: Final = {
    b"/a": (b"/a", QUOTA + b"/a"),
    b"/b": (b"/b", QUOTA + b"/b"),
    b"/a/b": (b"/a", b"/a/b", QUOTA + b"/a", QUOTA + b"/a/b"),
}
_HARD_LIMIT_TEXTS: Final = (
    b"count=-1,bytes=-1=;byteHardLimit=60;countHardLimit=5",
    b"countHardLimit=3",
    b"byteHardLimit=20",
    b"count=1,bytes=1=;byteHardLimit=1600;countHardLimit=6",
)
_LIMIT_TEXTS: Final = (
    b"count=3,bytes=10",
    b"count=-1,bytes=-1=;byteHardLimit=40;countHardLimit=4",
    b"count=-1,bytes=-1=;byteHardLimit=12",
    b"countHardLimit=2",
    b"countHardLimit=0,byteHardLimit=0",
    b"count=2,bytes=5=;countHardLimit=9",
    b"byteHardLimit=+7;;count=2,",
    b"count==4,bytes=1",
    b"unknown=5",
    b"",
    None,
    b"count=",
    b"count",
    b",count=3",
    b"count= 3",
    b"countHardLimit=1_0",
    b"countHardLimit=\xd9\xa3",
    b"countHardLimit=99999999999999999999",
    b"byteHardLimit=5=6",
    b"=5",
    b"x",
)
# What a client may write into zookeeper_stats without stopping the reference at the next change below.
_STATS_TEXTS: Final = (
    b"count=1,bytes=2",
    b"count=7",
    b"",
    b"bytes=3;x=4",
    b"count==4,bytes=-3",
    b"b=1,a=2,count=0",
)

WIDE_ID: Final = "\U0001f600:x".encode()  # inside a multi a known difference

_ACL_ENTRIES: Final[Sequence[tuple[str | None, str | bytes | None]]] = (
    ("world", "anyone"),
    ("world", "anyone"),
    ("auth", ""),
    ("auth", "ignored"),
    ("auth", None),
    ("digest", "u1:fpT/y03U+EjItKZOSLGvjnJlyng="),
    ("digest", "u2:x"),
    ("digest", "u3:x:"),
    ("digest", ":x"),
    ("digest", "u"),
    ("digest", "u:"),
    ("digest", "a:b:c"),
    ("digest", ""),
    ("digest", None),
    ("digest", "u:line\nbreak:x"),
    ("digest", WIDE_ID),
    ("digest", b"\xff:x\xc3"),
    ("ip", "127.0.0.1"),
    ("ip", "127.0.0.0/8"),
    ("ip", "10.0.0.1"),
    ("ip", "0.0.0.0/0"),
    ("ip", "127.0.0.1/33"),
    ("ip", "127.0.0.1/"),
    ("ip", "127.0.0.1/-1"),
    ("ip", "127.0.0.1/+8"),
    ("ip", "127.0.0.1/8/9"),
    ("ip", "127.0.0"),
    ("ip", "127.0.0.1.5"),
    ("ip", "127.0.0.256"),
    ("ip", "127.000.0.01"),
    ("ip", "127.0.0.-1"),
    ("ip", "::1"),
    ("ip", "::1/128"),
    ("ip", "::/0"),
    ("ip", "::1/129"),
    ("ip", "fe80::1%eth0"),
    ("ip", "1:2:3:4:5:6:7:8"),
    ("ip", "1:2:3:4:5:6:7::"),
    ("ip", "1:2:3:4:5:6:7:8:9"),
    ("ip", "12345::"),
    ("ip", "::127.0.0.1"),
    ("ip", "::ffff:127.0.0.1"),
    ("ip", "localhost"),
    ("ip", ""),
    ("ip", None),
    ("world", "someone"),
    ("world", None),
    ("world", ""),
    ("sasl", "a"),
    ("x509", "CN=a"),
    ("super", ""),
    ("", ""),
    ("unknown", "x"),
    ("unknown", None),
    (None, "x"),
    (None, None),
)
_VALID_ACL_ENTRIES: Final = (_ACL_ENTRIES[0], *_ACL_ENTRIES[2:3], *_ACL_ENTRIES[5:9], *_ACL_ENTRIES[17:21])
_PERMS: Final = (31, 31, 31, 1, 3, 7, 15, 16, 17, 30, 0, -1, 32, 1 << 30)

OPEN_ACL: Final = wire_vector([wire_int(31) + wire_string("world") + wire_string("anyone")])


@attrs.define
class Values:
    """Draws values for requests, knowing the world."""

    rng: random.Random
    world: World
    is_careful: bool = False  # whether to draw only what is likely to succeed
    watched: list[bytes] = attrs.field(factory=lambda: [b"/"])  # where watches were set lately

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def one_of(self, values: Sequence[T]) -> T:
        return self.rng.choice(values)

    # -- paths

    def path(self) -> bytes | None:
        """The path of a request that names a node: mostly one that exists."""
        roll = self.rng.random()
        if roll < 0.66 or self.is_careful:
            return self.existing_path()
        if roll < 0.84:
            return self.plain_path()
        if roll < 0.90:
            return self.one_of((b"/", b"/zookeeper", QUOTA, b"/zookeeper/config", b"/zz", b"/k", b"/a/e"))
        return None if roll < 0.91 else self.odd_path()

    def existing_path(self) -> bytes:
        return self.one_of(list(self.world.versions))

    def leaf_path(self) -> bytes | None:
        """A path to delete: if careful, of a node without children."""
        parents = {path.rpartition(b"/")[0] for path in self.world.versions}
        leaves = [path for path in self.world.versions if path not in parents and path not in _UNDELETABLE]
        return self.one_of(leaves) if leaves and self.is_careful else self.path()

    def watch_path(self) -> bytes | None:
        """A path to watch: mostly one where something will happen."""
        path = self.one_of((b"/", b"/a", b"/b", b"/k", b"/a/b")) if self.chance(0.4) else self.path()
        self.watched = [*self.watched[-5:], path or b""]
        return path

    def watched_path(self) -> bytes | None:
        return self.one_of(self.watched) if self.chance(0.7) else self.path()

    def plain_path(self) -> bytes:
        return b"".join(b"/" + self.one_of(NAMES) for _ in range(self.rng.randint(1, 3)))

    def odd_path(self) -> bytes:
        roll = self.rng.random()
        if roll < 0.1:
            return b""
        if roll < 0.4:
            return self.one_of(_BAD_PATHS)
        if roll < 0.7:
            name = self.one_of(_BAD_NAMES + _OK_ODD_NAMES)
            return self.one_of((b"/", b"/a/")) + name.encode("utf-8", "surrogatepass")
        return self.one_of((b"/", b"")) + self.odd_text()

    def odd_text(self) -> bytes:
        """Bytes that are seldom UTF-8."""
        return bytes(self.one_of(_ODD_BYTES) for _ in range(self.rng.randint(1, 7)))

    def parent_path(self) -> bytes:
        """A node to create something below: mostly one that exists and is not deep."""
        parents = [path for path in self.world.versions if path.count(b"/") < 3 and b"/e" not in path]
        ephemerals = [path for path in self.world.versions if b"/e" in path]
        if ephemerals and self.chance(0.04) and not self.is_careful:
            parents = ephemerals
        elif self.chance(0.25):
            parents = [path for path in parents if path.startswith((b"/a", b"/b"))] or parents
        parent = b"/" if self.chance(0.25) else self.one_of(parents)
        return b"" if parent == b"/" else parent

    def new_path(self) -> bytes | None:
        if self.is_careful:
            paths = [self.parent_path() + b"/" + name for name in NAMES]
            return next((path for path in paths if path not in self.world.versions), paths[0])
        if self.chance(0.12):
            return self.path()
        if self.chance(0.04):
            return self.parent_path() + b"/" + self.one_of(_OK_ODD_NAMES).encode()
        return self.parent_path() + b"/" + self.one_of(NAMES)

    def sequential_path(self) -> bytes:
        return self.parent_path() + b"/" + self.one_of((*SEQUENCE_PREFIXES, *NAMES))

    def ephemeral_path(self) -> bytes:
        return self.parent_path() + self.one_of((b"/e", b"/e2"))

    def container_path(self) -> bytes:
        return self.one_of((b"/k", b"/k", b"/k2", b"/k/k"))

    def quota_path(self) -> bytes:
        """The next node that is missing for a quota, or any of those that make one."""
        if self.chance(0.1):
            return self.one_of(
                (QUOTA + b"/" + STATS, QUOTA + b"X", QUOTA + b"X/" + LIMITS, QUOTA + b"/a/b/c")
            )
        subject = self.one_of((b"/a", b"/a", b"/b", b"/a/b"))
        way = (*_QUOTA_WAYS[subject], QUOTA + subject + b"/" + LIMITS, QUOTA + subject + b"/" + STATS)
        missing = [path for path in way if path not in self.world.versions]
        return missing[0] if missing and self.chance(0.8) else self.one_of(way)

    # -- what nodes hold

    def data(self, path: bytes | None, *, is_new: bool) -> bytes | None:
        name = (path or b"").rpartition(b"/")[2]
        if name == LIMITS:
            return self.one_of(_LIMIT_TEXTS if self.chance(0.4) else _HARD_LIMIT_TEXTS)
        if name == STATS and not is_new:
            return self.one_of(_STATS_TEXTS)
        roll = self.rng.random()
        if roll < 0.1:
            return None
        return b"" if roll < 0.25 else self.rng.randbytes(self.rng.choice((1, 2, 5, 10, 30, 1500)))

    def acl(self, path: bytes | None) -> bytes:
        """Mostly open; always where containers live, since who may delete them is a known difference."""
        if (
            self.is_careful
            or self.chance(0.75)
            or (path or b"/").startswith((b"/k", b"//"))
            or path in (b"/", b"")
        ):
            return OPEN_ACL
        roll = self.rng.random()
        if roll < 0.06:
            return self.one_of((wire_vector(None), wire_vector([]), wire_int(-7)))
        entries = _VALID_ACL_ENTRIES if roll < 0.6 else _ACL_ENTRIES
        acl = [self._acl_entry(entries) for _ in range(self.one_of((1, 1, 2, 3)))]
        return wire_vector(acl + acl[:1] if self.chance(0.2) else acl)

    def _acl_entry(self, entries: Sequence[tuple[str | None, str | bytes | None]]) -> bytes:
        scheme, name = self.one_of(entries)
        return wire_int(self.one_of(_PERMS)) + wire_string(scheme) + wire_string(name)

    def version(self, known: dict[bytes, int], path: bytes | None) -> int:
        roll = self.rng.random()
        if roll < 0.4:
            return -1
        current = known.get(path or b"", 0)
        if roll < 0.8 or self.is_careful:
            return current
        return self.one_of((current + 1, current - 1, -2, 0, 1, 2**31 - 1, -(2**31)))

    def flags(self) -> int:
        """For creates that are neither sequential nor ephemeral on purpose."""
        if self.is_careful or self.chance(0.8):
            return 0
        return self.one_of((0, 2, 4, 4, 5, 6, 7, -1, 8, 100, 2**31 - 1))
