"""Repeats at the second server what the first has done, one request after the other, and compares.

The client never waits for any of this: what is to be repeated waits in a queue. A queue that has grown too
long ends the cross-check, since after a gap in the writes nothing can be compared any more.

What may differ only because the two servers do something at different moments is not told as a difference:
    a session whose client is gone expires when its server finds it out: on the first sign that it has at the
    first server, it is closed at the second;
    containers and nodes with a time to live are removed when a server gets round to it;
    a read that the first server answered from an older state than others (`late`).
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeAlias

import attrs
import trio

from client.crosscheck.answers import OK, fields_of
from client.crosscheck.doubts import Doubts
from client.crosscheck.exchanges import Answered, Asked, Told, Welcomed
from client.crosscheck.findings import Findings
from client.crosscheck.likeness import Difference, Likeness
from client.crosscheck.ordering import Order
from client.crosscheck.request_text import WRITES, describe, parts_of, translate
from client.crosscheck.second_session import SecondLost, SecondSession
from client.events import EVENT_WORDS
from client.words import Connector
from jute.client_records import WatcherEvent
from jute.opcodes import EventType, OpCode

QUEUE_BYTES_MAX: Final = 64 * 1024 * 1024
ITEM_BYTES: Final = 500  # what an item takes besides its data
CAUSES_MAX: Final = 10_000
EVENT_SECONDS_MAX: Final = 30.0  # to wait for an event whose cause is not known
SETTLE_SECONDS: Final = 2.0  # the tree of a session's end may be seen this much later at the second server
KEEP_ALIVE_SECONDS: Final = 0.25
NOTHING: Final = "nothing that is known"
CONFIG_NODE: Final = "/zookeeper/config"
NOT_REPEATED: Final = {
    OpCode.RECONFIG: "a reconfig is not repeated: the second server's members are its own",
    OpCode.SASL: "a SASL exchange is not repeated: its tokens are good for one server",
}


@attrs.frozen
class Gone:
    """The client's connection has ended."""


Seen: TypeAlias = Answered | Told | Welcomed | Gone


@attrs.define(eq=False)
class Unclaimed:
    """An event that only one server has sent so far."""

    event: WatcherEvent
    at_zxid: int  # what had been repeated by then
    since_s: float
    cause: str


@attrs.define(eq=False)
class Pair:
    """One client's session at both servers."""

    name: str  # for people
    first_id: int
    client: str  # the connection that it has now, by the client's address
    second: SecondSession
    early: list[Unclaimed] = attrs.field(factory=list)  # sent by the second server, not yet by the first
    awaited: list[Unclaimed] = attrs.field(factory=list)  # the other way round
    is_resuming: bool = False  # its client is back, and has not yet said which watches it holds
    gone_since_s: float | None = None  # its client has no connection


@attrs.define(eq=False)
class Mirror:
    """Everything that is repeated and compared."""

    second_address: tuple[str, int]
    findings: Findings
    connect: Connector
    likeness: Likeness = attrs.field(factory=Likeness)
    is_over: bool = False
    _order: Order[tuple[int, str, Seen]] = attrs.field(factory=Order)
    _pairs: dict[int, Pair] = attrs.field(factory=dict)
    _doubts: Doubts = attrs.field(factory=Doubts)
    _causes: OrderedDict[int, str] = attrs.field(factory=OrderedDict)
    _position: int = 0  # the zxid up to which writes have been repeated
    _now_at: int = 0  # the zxid of what is repeated now
    _current: str = NOTHING
    _last_zxids: dict[int, int] = attrs.field(factory=dict)
    _has_news: trio.Event = attrs.field(factory=trio.Event)
    _is_caught_up: trio.Event = attrs.field(factory=trio.Event)
    _is_in_trouble: bool = False
    _noted: set[str] = attrs.field(factory=set)

    # --- What the proxy hands over; none of it ever waits.

    def saw(self, session: int, client: str, seen: Seen) -> None:
        """Take in what passed between a client and the first server."""
        if self.is_over:
            self.findings.counts["unchecked"] += 1
            return
        body = len(seen.body) + len(seen.asked.body) if isinstance(seen, Answered) else 0
        last = self._last_zxids.get(session, 0)
        zxid = max(last, seen.zxid) if isinstance(seen, Answered | Told) else last
        self._last_zxids[session] = zxid
        is_write = isinstance(seen, Answered) and seen.asked.op in WRITES
        now = trio.current_time()
        self._order.add(
            (session, client, seen), zxid=zxid, is_write=is_write, now=now, size=ITEM_BYTES + body
        )
        if self._order.size > QUEUE_BYTES_MAX:
            self._give_up()
        self._has_news.set()

    def _give_up(self) -> None:
        self.is_over = True
        self.findings.counts["unchecked"] += len(self._order)
        self.findings.note(
            f"{self.findings.second} is behind by {len(self._order)} requests, more than is kept for it: "
            "nothing is compared any more; start the cross-check again with equal trees"
        )
        self._order.clear()
        self._is_caught_up.set()

    @property
    def _is_behind(self) -> bool:
        return len(self._order) > 0 or self._current != NOTHING

    @property
    def is_complete(self) -> bool:
        """Whether all that the first server did has been asked of the second."""
        return not self.is_over and not self._is_behind

    async def catch_up(self) -> None:
        """Return once everything has been repeated, or nothing will be any more."""
        while not self.is_over and self._is_behind:
            self._is_caught_up = trio.Event()
            await self._is_caught_up.wait()

    def finish(self) -> None:
        """Tell what is still open at the end of a run."""
        self.findings.counts["unchecked"] += len(self._order) + (self._current != NOTHING)
        for pair in self._pairs.values():
            self._report_early(pair, self._now_at + 1)
            self._report_overdue(pair, trio.current_time() + EVENT_SECONDS_MAX - SETTLE_SECONDS)

    # --- The one task that repeats and compares.

    async def run(self) -> None:
        """Never raises: whatever is wrong here, the clients go on."""
        try:
            await self._run()
        except Exception as bug:
            self.is_over = True
            self.findings.note(
                f"the cross-check has ended by a bug of its own: {bug!r}; clients are served on"
            )
        self._is_caught_up.set()

    async def _run(self) -> None:
        while not self.is_over:
            await self._wait_for_the_next()
            if len(self._order) and trio.current_time() >= self._order.due():
                zxid, (session, client, seen) = self._order.take()
                await self._repeat(zxid, session, client, seen)
                self._current = NOTHING
            if not len(self._order):
                self._is_caught_up.set()
            await self._keep_sessions()

    async def _wait_for_the_next(self) -> None:
        self._has_news = trio.Event()
        with trio.move_on_at(min(self._order.due(), trio.current_time() + KEEP_ALIVE_SECONDS)):
            if not len(self._order):
                await self._has_news.wait()
            else:
                await trio.sleep_forever()

    async def _repeat(self, zxid: int, session: int, client: str, seen: Seen) -> None:
        if isinstance(seen, Welcomed):
            await self._welcomed(client, seen)
            return
        pair = self._pairs.get(session)
        if pair is None:  # it has been closed
            self._last_zxids.pop(session, None)
            return
        self._now_at = zxid
        if pair.client != client:  # what is left of a connection that the session has left
            return
        if isinstance(seen, Gone):
            pair.gone_since_s = trio.current_time()
            await self._reconnect(pair)  # which ends its watches, as it does at the first server
        elif isinstance(seen, Told):
            await self._told(pair, zxid, seen)
        else:
            await self._answered(pair, zxid, seen)

    # --- Sessions.

    async def _welcomed(self, client: str, seen: Welcomed) -> None:
        asked_id, granted_id = seen.request.session_id, seen.response.session_id
        if seen.response.timeout_ms <= 0:
            if asked_id in self._pairs:  # it has expired at the first server
                await self._end(self._pairs[asked_id])
            return
        if asked_id and asked_id in self._pairs:
            pair = self._pairs[asked_id]
            pair.gone_since_s, pair.client, pair.is_resuming = None, client, True
            await self._reconnect(pair)
            return
        if asked_id:
            self.findings.note(
                f"session 0x{granted_id & (2**64 - 1):x} of {client} is older than the cross-check: its "
                "ephemeral nodes are not its own at the second server"
            )
        await self._open(client, seen)

    async def _open(self, client: str, seen: Welcomed) -> None:
        first_id = seen.response.session_id
        name = f"session 0x{first_id & (2**64 - 1):x} of {client}"
        second = SecondSession(
            self.second_address,
            self.connect,
            seen.request.timeout_ms,
            on_event=lambda event: self._sent_by_second(pair, event),
            on_trouble=self._trouble,
        )
        pair = Pair(name, first_id, client, second)
        self._pairs[first_id] = pair
        await second.open()
        self._trouble_is_over()
        self.likeness.sessions.learn(first_id, second.session_id)
        if second.granted_ms != seen.response.timeout_ms:
            timeouts = Difference("timeout", seen.response.timeout_ms, second.granted_ms)
            self._once(lambda: self.findings.differ(name, "connect", [timeouts]), "timeout")

    async def _reconnect(self, pair: Pair) -> None:
        pair.early.clear()
        pair.awaited.clear()
        await pair.second.reconnect()
        self._trouble_is_over()
        if pair.second.was_ended:
            pair.second.was_ended = False
            self.likeness.sessions.learn(pair.first_id, pair.second.session_id)
            self.findings.note(
                f"{self.findings.second} had ended {pair.name}: its ephemeral nodes are gone there"
            )

    async def _end(self, pair: Pair) -> None:
        """The session is over at the first server: end it at the second."""
        self._pairs.pop(pair.first_id, None)
        self._last_zxids.pop(pair.first_id, None)
        await pair.second.close()
        self._doubts.forget(pair.first_id)

    async def _keep_sessions(self) -> None:
        now = trio.current_time()
        for pair in list(self._pairs.values()):
            self._report_overdue(pair, now)
            if pair.gone_since_s is not None and self._is_surely_expired(pair, now):
                await self._end(pair)
            elif pair.second.granted_ms and now >= pair.second.ping_due_s:
                try:
                    await pair.second.ping()
                except SecondLost:
                    await pair.second.open()
                self._trouble_is_over()

    def _is_surely_expired(self, pair: Pair, now: float) -> bool:
        assert pair.gone_since_s is not None
        return now > pair.gone_since_s + pair.second.granted_ms / 1000 * 2 + SETTLE_SECONDS

    # --- Requests.

    async def _answered(self, pair: Pair, zxid: int, seen: Answered) -> None:
        op, body = seen.asked.op, seen.asked.body
        if op in NOT_REPEATED:
            self._once(lambda: self.findings.note(NOT_REPEATED[OpCode(op)]), str(op))
            self.findings.counts["unchecked"] += 1
            return
        self._current = describe(op, body)
        if op in WRITES and seen.err == OK:
            self._doubts.note(pair.first_id, seen)
        answer = await self._ask(pair, seen)
        if op in WRITES:
            self._remember_cause(seen)
            self._position = max(self._position, zxid)
        if answer is None:
            self.findings.counts["unchecked"] += 1
        elif op != OpCode.PING:
            await self._compare(pair, zxid, seen, answer)
        if op not in (OpCode.PING, OpCode.AUTH):
            pair.is_resuming = False  # a client that is back sets its watches first
        self._report_early(pair, zxid)
        if op == OpCode.CLOSE_SESSION:
            self._pairs.pop(pair.first_id, None)
            self._last_zxids.pop(pair.first_id, None)
            self._doubts.forget(pair.first_id)
            await pair.second.hang_up()

    async def _ask(self, pair: Pair, seen: Answered) -> Answered | None:
        """What the second server says to the same request; None if that will never be known."""
        asked = seen.asked
        body = translate(asked.op, asked.body, self.likeness.second_zxid)
        try:
            header, reply = await pair.second.ask(asked.xid, asked.op, body)
        except SecondLost:
            if asked.op == OpCode.CLOSE_SESSION:
                return None
            if asked.op in WRITES:
                self.findings.note(
                    f"{self.findings.second} was lost during a write, which is done again: {self._current}"
                )
            try:
                header, reply = await pair.second.ask(asked.xid, asked.op, body)
            except SecondLost:
                return None
        self._trouble_is_over()
        return Answered(Asked(asked.xid, asked.op, body), header.zxid, header.err, reply)

    async def _compare(self, pair: Pair, zxid: int, seen: Answered, answer: Answered) -> None:
        self.findings.counts["requests"] += 1
        differences = self._differences(seen, answer)
        paths = [part.path for part in parts_of(seen.asked.op, seen.asked.body) if part.path is not None]
        is_repeatable = seen.asked.op not in WRITES or answer.err != OK
        if differences and is_repeatable and await self._expire(paths):
            again = await self._ask(pair, seen)
            if again is not None:
                differences, answer = self._differences(seen, again), again
        if not differences:
            if seen.asked.op in WRITES and seen.err == OK:
                self.likeness.learn_write(seen.zxid, answer.zxid)
                self._doubts.agree(seen)
        elif zxid < self._position or self._doubts.explain(paths, differences) or CONFIG_NODE in paths:
            self.findings.counts["explained"] += 1
        else:
            self.findings.differ(pair.name, self._current, differences)

    def _differences(self, seen: Answered, answer: Answered) -> list[Difference]:
        first, second = fields_of(seen), fields_of(answer)
        zxids = self.likeness.zxids
        is_done = seen.asked.op in WRITES and seen.err == OK == answer.err
        if is_done and zxids.are_alike(seen.zxid, answer.zxid):
            zxids.learn(seen.zxid, answer.zxid)  # they stand in the stat of what was written
        return self.likeness.compare(first, second)

    async def _expire(self, paths: list[str]) -> bool:
        """End sessions near these paths that may have expired at the first server; whether there was one."""
        waiting = [pair.first_id for pair in self._pairs.values() if pair.gone_since_s is not None]
        near = self._doubts.sessions_near(paths, waiting)
        for session in near:
            await self._end(self._pairs[session])
        return bool(near)

    # --- Events.

    def _sent_by_second(self, pair: Pair, event: WatcherEvent) -> None:
        for awaited in pair.awaited:
            if awaited.event == event:
                pair.awaited.remove(awaited)
                self.findings.counts["events"] += 1
                return
        pair.early.append(Unclaimed(event, self._now_at, trio.current_time(), self._current))

    async def _told(self, pair: Pair, zxid: int, seen: Told) -> None:
        """The first server has sent an event: so must the second have, by now."""
        if self._claim(pair, seen.event):
            return
        cause = self._causes.get(seen.zxid)
        if cause is None and seen.event.path is not None:
            await self._expire([seen.event.path])
        try:
            await pair.second.ping()
        except SecondLost:
            await pair.second.open()
        if self._claim(pair, seen.event):
            return
        if pair.second.lost_watches or self._doubts.explain_event(seen.event):
            self.findings.counts["explained"] += 1
        elif cause is None or pair.is_resuming:
            unknown = "a change that did not come through the cross-check"
            pair.awaited.append(Unclaimed(seen.event, zxid, trio.current_time(), cause or unknown))
        else:
            self.findings.counts["events"] += 1
            self.findings.differ_in_event(pair.name, _event_text(seen.event), cause, is_missing=True)

    def _claim(self, pair: Pair, event: WatcherEvent) -> bool:
        for early in pair.early:
            if early.event == event:
                pair.early.remove(early)
                self.findings.counts["events"] += 1
                return True
        return False

    def _report_early(self, pair: Pair, zxid: int) -> None:
        """The first server has answered a later request: what it has not sent before, it never will."""
        for early in [each for each in pair.early if each.at_zxid < zxid]:
            pair.early.remove(early)
            if self._doubts.explain_event(early.event):
                self.findings.counts["explained"] += 1
            else:
                text = _event_text(early.event)
                self.findings.differ_in_event(pair.name, text, early.cause, is_missing=False)

    def _report_overdue(self, pair: Pair, now: float) -> None:
        for awaited in [each for each in pair.awaited if now > each.since_s + EVENT_SECONDS_MAX]:
            pair.awaited.remove(awaited)
            text = _event_text(awaited.event)
            self.findings.differ_in_event(pair.name, text, awaited.cause, is_missing=True)

    def _remember_cause(self, seen: Answered) -> None:
        self._causes[seen.zxid] = self._current
        if len(self._causes) > CAUSES_MAX:
            self._causes.popitem(last=False)

    # --- The second server's health, told once each time it changes.

    def _trouble(self, problem: str) -> None:
        if not self._is_in_trouble:
            self._is_in_trouble = True
            self.findings.note(f"{self.findings.second} does not answer: {problem}; waiting for it")

    def _trouble_is_over(self) -> None:
        if self._is_in_trouble:
            self._is_in_trouble = False
            self.findings.note(f"{self.findings.second} answers again")

    def _once(self, tell: Callable[[], None], key: str) -> None:
        if key not in self._noted:
            self._noted.add(key)
            tell()


def _event_text(event: WatcherEvent) -> str:
    try:
        word = EVENT_WORDS[EventType(event.type)]
    except ValueError:
        word = str(event.type)
    return f"{word} {event.path}"
