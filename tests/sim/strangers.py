"""Somebody on the network who is no member: scans ports, sends nonsense, pulls snapshots, pretends.

Whatever is said on a port without authentication can be said by anybody. A stranger here goes as far as a
protocol without authentication can stand: it never acknowledges a proposal or an epoch as a member, for who
believes that has no way to know better. For all the rest it uses the ids of members, too.
"""

from collections import Counter
from collections.abc import Callable
from random import Random

import trio

from jute.framing import frame
from jute.quorum_records import (
    Initiation,
    Notification,
    ServerState,
    encode_initiation,
    encode_notification,
)
from jute.zxid import make_zxid
from quorum.packets import (
    ACKEPOCH,
    FOLLOWERINFO,
    OBSERVERINFO,
    PING,
    int_data,
    learner_info,
    packet,
)
from quorum.server_lines import config_text
from tests.sim.clients import CLIENT_PORT
from tests.sim.membership_on_disk import first_members
from tests.sim.network import HostNetwork, VirtualStream
from tests.sim.scenario import Scenario

QUORUM_PORT, ELECTION_PORT = 2888, 3888
_UNKNOWN_ID = 99
_STAYS_S = 3.0
_SCANNED_AT_ONCE = (1, 1, 1, 5, 5, 5, 5, 70)  # the last is more than servers keep of those who say nothing


class Stranger:
    """One host that goes from server to server."""

    def __init__(
        self,
        network: HostNetwork,
        servers: list[str],
        scenario: Scenario,
        chance: Random,
        counts: Counter[str],
        trace: Callable[[str, str], None],
    ) -> None:
        self._is_leaving = False
        self._has_left = trio.Event()
        self._network = network
        self._servers = servers
        self._scenario = scenario
        self._chance = chance
        self._counts = counts
        self._trace = trace
        self._tricks = [self._scan, self._talk_nonsense, self._learn, self._vote]

    async def run(self) -> None:
        while not self._is_leaving:
            await trio.sleep(self._chance.expovariate(1 / self._scenario.fault_every_s))
            server, trick = self._chance.choice(self._servers), self._chance.choice(self._tricks)
            with trio.move_on_after(self._chance.uniform(0, _STAYS_S)):
                try:
                    await trick(server)
                except (OSError, trio.BrokenResourceError):
                    self._counts["strangers_turned_away"] += 1
        self._has_left.set()

    async def leave(self) -> None:
        """Go, and give the servers a moment to notice."""
        self._is_leaving = True
        await self._has_left.wait()
        await trio.sleep(1 + 2 * self._scenario.tick_ms / 1000)

    async def _dial(self, server: str, port: int) -> VirtualStream:
        self._counts["strangers"] += 1
        return await self._network.dial(server, port)

    async def _stay(self, stream: VirtualStream) -> None:
        """Take what comes, until it is time to go."""
        try:
            while await stream.receive_some(4096):
                pass
        finally:
            stream.close()

    async def _scan(self, server: str) -> None:
        """Several connections on which nothing is said."""
        port = self._chance.choice((QUORUM_PORT, ELECTION_PORT, CLIENT_PORT))
        streams: list[VirtualStream] = []
        try:
            for _ in range(self._chance.choice(_SCANNED_AT_ONCE)):
                streams.append(await self._dial(server, port))
            await trio.sleep(_STAYS_S)
        finally:
            for stream in streams:
                stream.close()

    async def _talk_nonsense(self, server: str) -> None:
        stream = await self._dial(server, self._chance.choice((QUORUM_PORT, ELECTION_PORT, CLIENT_PORT)))
        await stream.send_all(self._chance.randbytes(self._chance.choice((1, 20, 500))))
        await self._stay(stream)

    async def _learn(self, server: str) -> None:
        """Ask for everything a learner gets, and acknowledge nothing."""
        server_id, epoch = self._draw_id(), self._draw_epoch()
        hello = self._chance.choice((FOLLOWERINFO, OBSERVERINFO))
        self._trace("stranger", f"calls itself learner {server_id} of epoch {epoch} to {server}")
        stream = await self._dial(server, QUORUM_PORT)
        await stream.send_all(packet(hello, make_zxid(epoch, 0), learner_info(server_id, 0)))
        if self._chance.random() < 0.7:
            await stream.send_all(packet(ACKEPOCH, 0, int_data(-1)))
        if self._chance.random() < 0.3:
            await stream.send_all(packet(PING, 0, b""))
        await self._stay(stream)

    async def _vote(self, server: str) -> None:
        sid = self._draw_id()
        stream = await self._dial(server, ELECTION_PORT)
        await stream.send_all(encode_initiation(Initiation(sid, (f"x1:{ELECTION_PORT}",))))
        vote = Notification(
            ServerState.LOOKING,
            sid,
            0,
            self._chance.choice((0, 1, 1 << 62, (1 << 63) - 1)),
            0,
            config_text(first_members(self._scenario)),
        )
        await stream.send_all(frame(encode_notification(vote)))
        await self._stay(stream)

    def _draw_id(self) -> int:
        if self._chance.random() < 0.8:
            return self._chance.randint(1, len(self._servers))
        return _UNKNOWN_ID + self._chance.randrange(5)

    def _draw_epoch(self) -> int:
        return self._chance.choice((0, 5, 50, 0x7FFFFFFE))
