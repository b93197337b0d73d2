"""Random conversations of several clients with one server, step by step.

A profile is the servers' configuration and what it makes worth asking; a seed chooses the profile and the
steps.
"""

import random
from typing import Final, Literal, TypeAlias

import attrs

from protocol.differential.requests import Requests
from protocol.differential.steps import (
    UNKNOWN_SESSION,
    Connect,
    Drop,
    Hello,
    Password,
    Probe,
    Request,
    Send,
    SendRaw,
    Step,
)
from protocol.differential.values import Values
from protocol.differential.world import World
from support.opcodes import READS, Op
from support.raw_client import wire_buffer, wire_int, wire_string
from support.super_user import SUPER, SUPER_DIGEST

SLOTS: Final = 3
AUDITOR: Final = SLOTS  # the slot from which the whole tree is read at the end
REQUESTS_PER_BURST_MAX: Final = 8

_BAD_LENGTHS: Final = (-1, 0, 1, 7, 0x100000, 2**31 - 1, -(2**31), 0x72756F6B)
_ODD_XIDS: Final = (0, -3, -4, -8, -100, 2**31 - 1, -(2**31))
_WORDS: Final = (
    *(b"ruok", b"isro", b"srvr", b"ruok\n", b"isro and more"),  # enabled
    *(b"conf", b"cons", b"crst", b"dirs", b"dump", b"envi", b"gtmk", b"hash", b"mntr", b"srst", b"stat"),
    *(b"wchc", b"wchp", b"wchs", b"stmk" + bytes(8)),
)
_BAD_BEGINNINGS: Final = (
    b"nope",
    b"\xff\xf4\xff\xfd",
    wire_int(-1),
    wire_int(0),
    wire_int(5) + b"hello",
    wire_int(0x100000),
    wire_int(27) + bytes(27),
    wire_int(28) + bytes(24) + b"\x00\x00\x00\x10",
    wire_int(28) + bytes(24) + b"\xff\xff\xff\xfe",
)
_TAILS: Final = (b"\x00", b"\x00", b"\x01", b"", b"\x05", b"\x00garbage")

# No session expires and no container is reaped while a run lasts: both happen when a server finds the time.
STILL: Final = {
    "minSessionTimeout": 300_000,
    "maxSessionTimeout": 900_000,
    "maxClientCnxns": 0,
    "forceSync": "no",
    "4lw.commands.whitelist": "ruok,isro",
    "DigestAuthenticationProvider.superDigest": SUPER_DIGEST,
}
STILL_FLAGS: Final = ("-Dznode.container.checkIntervalMs=100000000",)


@attrs.frozen
class Profile:
    """A way to configure both servers."""

    name: str
    settings: dict[str, str] = attrs.field(factory=dict)
    quota_share: float = 0.1
    has_write_bursts: bool = True  # where quotas are enforced, a race in the reference

    @property
    def has_ttl_nodes(self) -> bool:
        return "extendedTypesEnabled" in self.settings

    @property
    def enforces_auth(self) -> bool:
        return "enforce.auth.enabled" in self.settings


PROFILES: Final = (
    Profile("plain"),
    Profile("extended types", {"extendedTypesEnabled": "true"}),
    Profile("enforced quotas", {"enforceQuota": "true"}, quota_share=0.6, has_write_bursts=False),
    Profile(
        "no access control", {"skipACL": "yes", "reconfigEnabled": "true", "extendedTypesEnabled": "true"}
    ),
    Profile("enforced authentication", {"enforce.auth.enabled": "true", "enforce.auth.schemes": "digest"}),
)


# The servers whose answers are compared: one alone each, or this member of an ensemble of each kind.
Through: TypeAlias = Literal["standalone", "leader", "follower", "observer"]


def profile_of(seed: int) -> Profile:
    return PROFILES[seed % len(PROFILES)]


class Scenario:
    """The steps of one seed, drawn one at a time because they depend on what the reference answered."""

    def __init__(self, seed: int, through: Through = "standalone") -> None:
        self.profile = profile_of(seed)
        self._is_alone = through == "standalone"
        self.world = World()
        rng = random.Random(f"differential {seed}")
        self._values = Values(rng, self.world)
        self._requests = Requests(
            self._values, self.profile.has_ttl_nodes, self.profile.quota_share, self._is_alone
        )

    def next_step(self) -> Step:
        values = self._values
        slot = values.rng.randrange(SLOTS)
        if slot not in self.world.session_of_slot:
            return self._connect(slot)
        roll = values.rng.random()
        if roll < 0.015:
            return Send(slot, (self._requests.draw_fatal(),))
        if roll < 0.018:
            return SendRaw(slot, self._bad_frame())
        if roll < 0.022:
            return Drop(slot)
        if roll < 0.03:
            return Probe(values.one_of(_WORDS + _BAD_BEGINNINGS))
        if roll < 0.037:
            return self._connect(slot)
        if roll < 0.044:
            return Send(slot, (self._requests.numbered(Op.CLOSE_SESSION, b"", "closeSession()"),))
        if roll < 0.05:
            return Send(slot, (self._create_session(),))
        return self._send(slot)

    def _send(self, slot: int) -> Send:
        values = self._values
        if values.chance(0.12):
            return self._burst(slot)
        request = self._requests.draw()
        if values.chance(0.04) and request.op != Op.PING:
            request = attrs.evolve(request, xid=values.one_of(_ODD_XIDS))
        cut_at = values.rng.randrange(len(request.frame)) if values.chance(0.05) else None
        return Send(slot, (request,), cut_at)

    def _burst(self, slot: int) -> Send:
        count = self._values.rng.randint(2, REQUESTS_PER_BURST_MAX)
        requests = [self._requests.draw() for _ in range(count)]
        racing = [request for request in requests if _races(request)]
        requests = [request for request in requests if request not in racing] + racing[:1]
        if not self.profile.has_write_bursts:
            requests = [request for request in requests if request.op in READS] or requests[:1]
        elif not racing and self._values.chance(0.08):
            requests.append(self._requests.numbered(Op.CLOSE_SESSION, b"", "closeSession()"))
        return Send(slot, tuple(requests))

    def _create_session(self) -> Request:
        timeout_ms = self._values.one_of((300_000, 400_000, 2**31 - 1))
        size = self._values.one_of((4, 4, 3, 0)) if self._is_alone else 4
        text = f"createSession({timeout_ms}) in {size} bytes"
        return self._requests.numbered(Op.CREATE_SESSION, wire_int(timeout_ms)[:size], text)

    def _bad_frame(self) -> bytes:
        length = self._values.one_of(_BAD_LENGTHS)
        return wire_int(length) + self._values.rng.randbytes(min(max(length, 0), 12))

    # -- connecting

    def _connect(self, slot: int) -> Connect:
        """A new session, or one that was there before: the slot's own, another's, a closed or unknown one."""
        values, world = self._values, self.world
        hello = Hello(
            timeout_ms=values.one_of((300_000, 300_000, 450_000, 900_001, 0, -1, 2**31 - 1, -(2**31))),
            last_zxid=self._last_zxid(),
            protocol_version=0 if values.chance(0.9) else values.one_of((1, -1, 2**31 - 1)),
            tail=values.one_of(_TAILS),
        )
        if values.chance(0.5) and world.sessions_count:
            hello = attrs.evolve(hello, session=self._known_session(), password=self._password())
        elif values.chance(0.05):
            hello = attrs.evolve(hello, session=UNKNOWN_SESSION)
        elif values.chance(0.1):
            hello = attrs.evolve(hello, password=self._password())
        return Connect(slot, hello, self._behind())

    def _last_zxid(self) -> int:
        if self._values.chance(0.8):
            return self._values.one_of((0, self.world.zxid))
        return self._values.one_of((-1, -(2**63), self.world.zxid + 1, 2**63 - 1))

    def _known_session(self) -> int:
        alive = self.world.sessions_alive
        if alive and self._values.chance(0.9):
            return self._values.one_of(alive)
        return self._values.rng.randrange(self.world.sessions_count)

    def _password(self) -> Password:
        others: tuple[Password, ...] = ("wrong", "short", "null")
        return "right" if self._values.chance(0.8) else self._values.one_of(others)

    def _behind(self) -> tuple[Request, ...]:
        if self.profile.enforces_auth and self._values.chance(0.85):
            return (self.authenticate(b"u1:p1"),)
        if self._values.chance(0.1):
            return tuple(self._requests.draw() for _ in range(self._values.rng.randint(1, 3)))
        return ()

    def authenticate(self, credentials: bytes) -> Request:
        body = wire_int(0) + wire_string("digest") + wire_buffer(credentials)
        return self._requests.numbered(Op.AUTH, body, f"auth(0, 'digest', {credentials!r})")

    # -- the tree at the end

    def begin_audit(self) -> Step:
        return Connect(AUDITOR, Hello(), (self.authenticate(SUPER),))

    def audit(self, path: bytes) -> Send:
        """Everything there is to know about a node, in one burst."""
        name = wire_string(path)
        return Send(
            AUDITOR,
            (
                self._requests.numbered(Op.GET_CHILDREN2, name + b"\x00", f"getChildren2({path!r})"),
                self._requests.numbered(Op.GET_DATA, name + b"\x00", f"getData({path!r})"),
                self._requests.numbered(Op.GET_ACL, name, f"getAcl({path!r})"),
            ),
        )


def _races(request: Request) -> bool:
    """Whether what stands behind this in a burst is a race in the reference: see table.py."""
    has_ephemeral_flags = "flags=1)" in request.text or "flags=3)" in request.text
    is_half_ephemeral = request.op == Op.CREATE_CONTAINER and has_ephemeral_flags
    is_breakable = request.op == Op.MULTI and "ffffffff" in request.text
    return request.op == Op.SET_ACL or is_half_ephemeral or is_breakable
