"""What the peer needs of the server it makes one of many: its state, its history on disk, and its clients.

The server's side of this is server/replica.py; the simulator runs the same one. Everything that is not
`async` happens at once and completely: between two calls nothing else changes.

Two logs must not be confused. The log on disk takes proposals, committed or not; the tree takes only what is
committed. `proposed` hands over a transaction in order; `committed` applies the oldest of those handed over.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from quorum.committed_log import CommittedLog

AuthIds = tuple[tuple[str, str], ...]


class Origin(Protocol):
    """Where a request came from: a learner's link. Compared by identity."""

    def sync_done(self) -> None:
        """The oldest sync forwarded from there is answered now."""


class Proposer(Protocol):
    """What a leader's service hands its transactions to; they come back through `committed`."""

    def new_config(
        self,
        joining: str | None,
        leaving: str | None,
        new_members: str | None,
        from_version: int,
        zxid: int,
    ) -> str:
        """The configuration that a client asks for, as text. Raises the ZkError that refuses it.

        It is proposed by the transaction with this zxid, which must be appended next, if at all.
        """
        ...

    def append(self, payload: bytes) -> None:
        """Propose the next transaction: its zxid is one above the one before."""

    def flush(self) -> None:
        """Nothing more will be appended for now."""


class Upstream(Protocol):
    """What a learner's service asks of its leader."""

    def forward(self, session: int, cxid: int, op: int, body: bytes, ids: AuthIds | None) -> None:
        """A request for the leader: a write, a sync, a session to create or close."""

    def revalidate(self, session: int, timeout_ms: int) -> None:
        """May this session go on here? The answer comes through `LearnerService.revalidated`."""

    def flush(self) -> None:
        """Nothing more will be asked for now."""


class LeaderService(Protocol):
    """The server while it leads: it prepares all writes, and decides about sessions."""

    def begin_batch(self) -> None:
        """What follows arrived now, together."""

    @property
    def sync_due(self) -> int:
        """The zxid up to which proposals may be committed together: when they are, a sync is answered, which
        no later commit may overtake. Beyond all zxids if no sync waits."""
        ...

    def committed(self, count: int) -> None:
        """The oldest `count` proposals are committed: apply and answer them, and the syncs they release."""

    @property
    def deferred(self) -> int:
        """How many requests of learners were handed over and are not proposed yet: they will be."""
        ...

    def forwarded(self, origin: Origin, session: int, cxid: int, op: int, body: bytes, ids: AuthIds) -> None:
        """A learner's request: becomes exactly one proposal, or a sync answered in its turn."""

    def revalidate(self, origin: Origin, session: int, timeout_ms: int) -> bool:
        """May a client go on with this session at `origin`? From now on `origin` owns it, if so."""

    def touch(self, session: int, timeout_ms: int) -> None:
        """A learner has heard from this session."""

    def end_batch(self) -> None:
        """All that arrived together has been handed over: let proposals and replies leave."""


class LearnerService(Protocol):
    """The server while it follows or observes."""

    def begin_batch(self) -> None:
        """What follows arrived now, together."""

    def proposed(self, payload: bytes) -> None:
        """The leader's next transaction; nothing changes before it is committed."""

    def committed(self, count: int) -> None:
        """The oldest `count` transactions handed over are committed: apply and answer them."""

    def sync_done(self) -> None:
        """The leader answered our oldest sync."""

    def revalidated(self, session: int, is_valid: bool) -> None:
        """The leader's answer to a `revalidate`."""

    def session_left(self, session: int) -> None:
        """Its client has gone on at one of our observers: nothing more it said here counts."""

    def touched(self) -> list[tuple[int, int]]:
        """Global sessions heard from since the last call, with their timeouts."""

    def end_batch(self) -> None:
        """All that arrived together has been handed over: let replies leave."""


class Replica(Protocol):
    """One server's state and history, and the service it gives in its present role."""

    @property
    def last_zxid(self) -> int:
        """Of the last transaction applied. When no role is active, all that was logged is applied."""
        ...

    @property
    def committed_log(self) -> CommittedLog: ...

    @property
    def digest_mismatches(self) -> int:
        """How often, since the process began, a transaction led to another tree than it says."""
        ...

    async def caught_up(self) -> None:
        """Returns as soon as everything handed to `committed` is applied; nothing else happens in between."""

    # -- the log on disk

    def log(self, payload: bytes) -> None:
        """Queue a transaction to be logged; `flush_log` must follow."""

    def flush_log(self) -> None: ...

    def leave_unlogged(self) -> None:
        """Transactions will be applied that were not handed to `log`: an observer may do without it."""

    async def make_durable(self) -> None:
        """If anything was left unlogged, save the tree: a voter's history must be on its disk."""

    def on_logged(self, callback: Callable[[int], None]) -> None:
        """Whom to tell, from now on, that the oldest `count` unreported transactions are durable. A batch of
        the service in office has begun then."""

    async def log_drained(self) -> None:
        """Returns once everything handed to `log` is durable and reported."""

    def logged_after(self, zxid: int) -> Iterator[bytes] | None:
        """Payloads on disk, in order, from the first one of the file that can hold `zxid`: some before it
        come first. None if that is not worth it compared with the whole tree (snapshotSizeFactor), or if the
        log does not reach back that far, or not without a gap. Blocks, and may be read in another thread."""

    async def truncate(self, zxid: int) -> None:
        """Cut the log back behind `zxid` and load the tree again: it is as if nothing more had been.

        Snapshots beyond `zxid` go first: they may hold what is cut off. Raises StorageError if what is left
        does not lead up to `zxid`."""

    # -- the tree

    def apply(self, payload: bytes) -> None:
        """Apply a committed transaction outside any service, while synchronising."""

    def snapshot_stream(self) -> Iterator[bytes]:
        """The whole tree as SNAP sends it, in pieces; the tree may change while they are taken."""

    async def begin_restore(self) -> "Restoring":
        """Empty the tree, to be filled from a leader's stream."""

    async def adopt_snapshot(self) -> None:
        """The tree came from a leader: make it our history on disk.

        Everything that got into it while it was sent has been applied by now: from here on every digest must
        be met. What the log holds beyond it goes first, then the tree is saved durably, then all older logs
        and snapshots go."""

    async def fetched(self) -> None:
        """A leader's tree is our history on disk, and we have entered its epoch. If an operator told us to
        take everything from a leader, that is done, and our vote counts again."""

    async def reload(self) -> None:
        """Throw the tree away and load it from disk: what was in memory is not to be trusted."""

    # -- roles

    def lead(self, epoch: int, proposer: Proposer) -> LeaderService:
        """Serve as leader: zxids start above epoch << 32, which counts as processed."""

    def learn(self, upstream: Upstream, *, is_observer: bool) -> LearnerService:
        """Serve as follower or observer."""

    def serve_read_only(self) -> None:
        """Serve reads to clients that ask for no more, while there is no quorum."""

    async def retire(self) -> None:
        """Stop serving, if anything is served: clients are let go. Then bring the tree up to the end of the
        log, committed or not: it is what the next vote stands for."""


class Restoring(Protocol):
    """A tree being filled from a stream."""

    def feed(self, chunk: bytes) -> bytes | None:
        """Take a piece; once the stream is complete, whatever of the piece lies behind it."""

    def finish(self, zxid: int) -> None:
        """All of it is there, and this is its zxid."""
