"""What strangers do at the ports that servers have for each other: fuzzed bytes, and words in others' names.

Each attack is one round: it connects, says something, maybe listens for a moment, and goes. None of them lies
about data: a forwarded write would be believed, here as on Apache's server, where only TLS or SASL keeps
strangers out.
"""

import socket
from contextlib import suppress
from random import Random
from typing import Final

import attrs

from support.raw_client import wire_buffer, wire_int, wire_long, wire_string
from support.servers import HOST

ACK, PING, FOLLOWERINFO, OBSERVERINFO, ACKEPOCH = 3, 5, 11, 16, 18
LOOKING, FOLLOWING, LEADING, OBSERVING = range(4)
PROTOCOL_VERSION: Final = 0x10000
_INITIATION_VERSION: Final = -65536
_PATIENCE_SECONDS: Final = 2.0


def packet(type_: int, zxid: int, data: bytes | None = None) -> bytes:
    """A quorum packet without ids."""
    return wire_int(type_) + wire_long(zxid) + wire_buffer(data) + wire_int(-1)


def learner_info(server_id: int, config_version: int = 0) -> bytes:
    return wire_long(server_id) + wire_int(PROTOCOL_VERSION) + wire_long(config_version)


def initiation(server_id: int, address: str) -> bytes:
    text = address.encode()
    return wire_long(_INITIATION_VERSION) + wire_long(server_id) + wire_int(len(text)) + text


def notification(state: int, leader: int, zxid: int, round_: int, epoch: int, config: str) -> bytes:
    head = wire_int(state) + wire_long(leader) + wire_long(zxid) + wire_long(round_) + wire_long(epoch)
    body = head + wire_int(2) + wire_int(len(config)) + config.encode()
    return wire_int(len(body)) + body


@attrs.define
class Strangers:
    """Attacks on an ensemble whose members have these ids. Some connections stay open for a while."""

    rng: Random
    members: list[int]
    election_lines: dict[int, str]  # host:port by member
    kept: list[socket.socket] = attrs.field(factory=list)
    kept_max: int = 40

    def _dial(self, port: int) -> socket.socket | None:
        try:
            return socket.create_connection((HOST, port), timeout=_PATIENCE_SECONDS)
        except OSError:
            return None  # turned away, as it may be

    def _say(self, port: int, said: bytes, *, in_pieces: bool = False) -> socket.socket | None:
        stranger = self._dial(port)
        if stranger is None:
            return None
        step = self.rng.randint(1, 40) if in_pieces else len(said) or 1
        try:
            for at in range(0, len(said), step):
                stranger.sendall(said[at : at + step])
        except OSError:
            stranger.close()
            return None
        return stranger

    def _listen(self, stranger: socket.socket | None) -> bytes:
        if stranger is None:
            return b""
        try:
            return stranger.recv(65536)
        except OSError:
            return b""

    def _leave(self, stranger: socket.socket | None) -> None:
        """At once, or later."""
        if stranger is None:
            return
        if self.rng.random() < 0.5:
            stranger.close()
            return
        self.kept.append(stranger)
        if len(self.kept) > self.kept_max:
            self.kept.pop(self.rng.randrange(len(self.kept))).close()

    def leave_all(self) -> None:
        while self.kept:
            self.kept.pop().close()

    def _somebody(self) -> int:
        return self.rng.choice([*self.members, *self.members, self.rng.randint(4, 300), -1, (1 << 63) - 1])

    def _epoch(self) -> int:
        return self.rng.choice([0, 1, 2, 3, 9, 200, 5000, 0x7FFFFFFD, 0x7FFFFFFE, 0x7FFFFFFF, 0xFFFFFFFF])

    # -- the quorum port

    def at_quorum_port(self, port: int) -> None:
        self.rng.choice(
            [self._noise, self._spoilt_hello, self._later_epoch, self._impersonate, self._dribble_ids]
        )(port)

    def _noise(self, port: int) -> None:
        self._leave(self._say(port, self.rng.randbytes(self.rng.randint(0, 300)), in_pieces=True))

    def _hello(self) -> bytes:
        type_ = self.rng.choice([FOLLOWERINFO, FOLLOWERINFO, OBSERVERINFO])
        return packet(type_, _signed(self._epoch() << 32), learner_info(self._somebody()))

    def _spoilt_hello(self, port: int) -> None:
        said = bytearray(self._hello())
        for _ in range(self.rng.randint(1, 4)):
            said[self.rng.randrange(len(said))] = self.rng.randrange(256)
        cut = self.rng.randint(1, len(said))
        self._leave(self._say(port, bytes(said[:cut]), in_pieces=self.rng.random() < 0.3))

    def _later_epoch(self, port: int) -> None:
        """One packet that deposed a leader."""
        server_id = self.rng.choice(self.members)
        said = packet(FOLLOWERINFO, _signed(self._epoch() << 32), learner_info(server_id))
        stranger = self._say(port, said)
        self._listen(stranger)
        self._leave(stranger)

    def _impersonate(self, port: int) -> None:
        """As far as a follower goes before it acknowledges anything that is proposed."""
        said = packet(FOLLOWERINFO, 0, learner_info(self._somebody()))
        stranger = self._say(port, said)
        self._listen(stranger)
        if stranger is not None:
            current = self.rng.choice([-1, 0, 1, 0x7FFFFFFF])
            zxid = self.rng.choice([0, -1, 1 << 32, (1 << 32) + 77, (1 << 62)])
            answers = packet(ACKEPOCH, zxid, wire_int(current))
            answers += self.rng.choice(
                [b"", packet(ACK, 1 << 32), packet(PING, 0, b""), self.rng.randbytes(30)]
            )
            with suppress(OSError):
                stranger.sendall(answers)
            self._listen(stranger)
        self._leave(stranger)

    def _dribble_ids(self, port: int) -> None:
        """A list of very many ids that never ends."""
        head = wire_int(FOLLOWERINFO) + wire_long(0) + wire_buffer(learner_info(1)) + wire_int(9000)
        some = (wire_string("digest") + wire_string("u")) * 3000
        stranger = self._say(port, head + some)
        if stranger is not None:
            with suppress(OSError):
                for _ in range(20):
                    stranger.sendall(b"\0")
        self._leave(stranger)

    # -- the election port

    def at_election_port(self, port: int) -> None:
        self.rng.choice([self._noise, self._spoilt_call, self._vote, self._vote, self._large_frame])(port)

    def _call(self) -> bytes:
        server_id = self._somebody()
        address = self.election_lines.get(server_id, f"{HOST}:{self.rng.choice([1, 9, 65535])}")
        return initiation(
            server_id, self.rng.choice([address, address, "0.0.0.0:1", "nowhere.invalid:7", "x"])
        )

    def _spoilt_call(self, port: int) -> None:
        said = bytearray(self._call())
        for _ in range(self.rng.randint(1, 4)):
            said[self.rng.randrange(len(said))] = self.rng.randrange(256)
        self._leave(self._say(port, bytes(said), in_pieces=self.rng.random() < 0.3))

    def _vote(self, port: int) -> None:
        """In a member's name, or another's: for anybody, in any round, with any configuration."""
        config = self.rng.choice(
            ["", f"server.1={HOST}:1:2:participant\nversion=7fffffff", "server.1=", "x" * 500]
        )
        votes = [
            notification(
                self.rng.choice([LOOKING, LOOKING, FOLLOWING, LEADING, OBSERVING, 9]),
                self._somebody(),
                self.rng.choice([0, -1, 1 << 40, (1 << 63) - 1]),
                self.rng.choice([0, 1, 5, 1 << 40, (1 << 63) - 1]),
                self.rng.choice([0, 1, 1 << 31]),
                config,
            )
            for _ in range(self.rng.randint(1, 4))
        ]
        stranger = self._say(port, self._call() + b"".join(votes))
        self._leave(stranger)

    def _large_frame(self, port: int) -> None:
        length = self.rng.choice([0, -1, 524_288, 524_289, 0x7FFFFFFF])
        self._leave(self._say(port, self._call() + wire_int(length) + self.rng.randbytes(200)))


def _signed(number: int) -> int:
    """As 64 bits with a sign."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number
