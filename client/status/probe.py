"""Ask a whole ensemble: find its members, and ask them all at once.

Only `srvr` is always allowed. The members are in `conf`, if that is allowed, and in /zookeeper/config, which
any session may read unless somebody changed its ACL; a session costs the ensemble a transaction, so it is
opened only to find the members, never to look at them again.
"""

import socket
from collections.abc import Awaitable, Callable, Sequence

import trio

from client.connect_string import ConnectString, host_port
from client.errors import ServerError
from client.session import open_session
from client.status.answers import NOT_ALLOWED, add_mntr, parse_srvr, server_id_of
from client.status.members import Address, Member, parse_members, place_strangers
from client.status.report import Report, ServerReport
from client.words import four_letter_word

SERVER_ID_SHIFT = 56  # a session's id begins with that of the server that opened it


class Prober:
    """Remembers the members between looks."""

    def __init__(self, asked: Sequence[Address], timeout_s: float) -> None:
        self._asked = list(dict.fromkeys(asked))
        self._timeout_s = timeout_s
        self._members: list[Member] | None = None
        self._notes: tuple[str, ...] = ()

    async def look(self) -> Report:
        """Ask everybody. The members are looked for again as long as nobody could tell."""
        if self._members is not None:
            return Report(tuple(await _at_once(self._members, self._report)), self._notes)
        asked = await _at_once([Member(None, address) for address in self._asked], self._report)
        await self._find_members([s.member.address for s in asked if s.is_serving and s.member.address])
        return Report(tuple(asked)) if self._members is None else await self.look()

    # --- The members.

    async def _find_members(self, serving: Sequence[Address]) -> None:
        for address in serving:
            text = await self._configuration(address)
            if text is None:
                continue
            members = parse_members(text, address[1])
            if members:
                self._members, self._notes = await self._with_asked(members, serving)
            else:  # a standalone server has no members but itself
                self._members = [Member(None, asked) for asked in self._asked]
            return

    async def _configuration(self, address: Address) -> str | None:
        """The text with the server lines, if this server tells."""
        conf = await self._word(address, "conf")
        if conf is not None and "clientPort=" in conf:
            return conf
        config, _ = await self._open_session(address)
        return config

    async def _open_session(self, address: Address) -> tuple[str | None, int | None]:
        """What /zookeeper/config says, and the id of the server."""
        servers = ConnectString((address,))
        timeout_ms = max(4000, int(self._timeout_s * 1000))
        try:
            async with open_session(servers, timeout_ms=timeout_ms) as session:
                await session.wait_connected(self._timeout_s)
                server_id = session.session_id >> SERVER_ID_SHIFT & 0xFF
                data, _ = await session.get_config()
                return (data or b"").decode(errors="replace"), server_id
        except (ServerError, OSError):
            return None, None

    async def _with_asked(
        self, members: list[Member], serving: Sequence[Address]
    ) -> tuple[list[Member], tuple[str, ...]]:
        """The members, with the addresses from the command line where the configuration has none."""
        known = {address for m in members if m.address for address in await _resolved(m.address)}
        strangers = [asked for asked in self._asked if not known & await _resolved(asked)]
        ids = {address: await self._identify(address) for address in strangers if address in serving}
        members = place_strangers(members, {address: ids.get(address) for address in strangers})
        return members, tuple(
            f"server.{member.server_id}: its client port is in no configuration; name it to have it asked"
            for member in members
            if member.address is None
        )

    async def _identify(self, address: Address) -> int | None:
        conf = await self._word(address, "conf")
        server_id = server_id_of(conf) if conf else None
        if server_id is None:
            _, server_id = await self._open_session(address)
        return server_id

    # --- The servers.

    async def _report(self, member: Member) -> ServerReport:
        if member.address is None:
            return ServerReport(member)
        try:
            answer = await four_letter_word(*member.address, "srvr", self._timeout_s)
        except OSError as problem:
            return ServerReport(member, problem=str(problem))
        facts = parse_srvr(answer.decode(errors="replace"))
        if not answer:
            said = f"{host_port(*member.address)}: closes the connection without an answer"
            return ServerReport(member, facts, said)
        mntr = await self._word(member.address, "mntr") if facts.mode else None
        return ServerReport(member, add_mntr(facts, mntr) if mntr else facts)

    async def _word(self, address: Address, word: str) -> str | None:
        """The answer to a word that may be forbidden."""
        try:
            answer = await four_letter_word(*address, word, self._timeout_s)
        except OSError:
            return None
        text = answer.decode(errors="replace")
        return None if not text or NOT_ALLOWED in text else text


async def _at_once(
    members: Sequence[Member], ask: Callable[[Member], Awaitable[ServerReport]]
) -> list[ServerReport]:
    reports: dict[int, ServerReport] = {}

    async def keep(index: int, member: Member) -> None:
        reports[index] = await ask(member)

    async with trio.open_nursery() as nursery:
        for index, member in enumerate(members):
            nursery.start_soon(keep, index, member)
    return [reports[index] for index in range(len(members))]


async def _resolved(address: Address) -> frozenset[Address]:
    """The addresses that a name stands for; the name itself if it stands for nothing."""
    try:
        found = await trio.socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return frozenset({address})
    return frozenset((str(entry[4][0]), address[1]) for entry in found)
