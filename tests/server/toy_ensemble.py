"""An ensemble without network, disk or time: what servers say to each other waits until a test delivers it.

Proposals and commits reach every learner in the order the leader made them, but each learner at its own pace,
and so do the learners' requests reach the leader. Nothing else is promised, as in a real ensemble.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from struct import pack
from typing import cast

from jute.client_records import ConnectRequest
from jute.record import encode
from quorum.committed_log import CommittedLog
from quorum.replica import AuthIds
from server.acls import AccessRules
from server.client_sessions import Sessions, first_session_id
from server.data_tree import DataTree
from server.leading import LeadingPipeline
from server.learning import LearningPipeline
from server.local_sessions import LeaderSessions
from server.not_serving import NotServingPipeline
from server.pipeline import Pipeline, ServerState
from server.prepare_txn import Preparer
from server.read_only import ReadOnlyPipeline
from server.standing import FOLLOWER
from server.stored_tree import StoredTree
from tests.server.one_server import START_MS, START_WALL_MS, TICK_MS, Client, OneServer

LEADER_ID = 1


class ToyServer:
    """One server of the ensemble, with its role's pipeline."""

    def __init__(
        self, ensemble: "ToyEnsemble", server_id: int, *, local_sessions: bool, upgrades_sessions: bool
    ) -> None:
        self.ensemble = ensemble
        self.server_id = server_id
        self.tree = DataTree()
        self.committed_log = CommittedLog(500)
        self.stored = StoredTree(self.tree)
        self.state = ServerState(
            self.tree,
            AccessRules(),
            committed_log=self.committed_log,
            local_sessions=local_sessions,
            upgrades_sessions=upgrades_sessions,
        )
        self.sessions = Sessions(TICK_MS, first_session_id(server_id, START_MS))
        self.pipeline: Pipeline = NotServingPipeline(self.state, self.sessions)

    def settle(self) -> None:
        self.ensemble.settle()

    def serve_read_only(self) -> None:
        self.pipeline = ReadOnlyPipeline(self.state, self.sessions)
        self.pipeline.begin_batch(START_MS, START_WALL_MS)

    def client(self) -> Client:
        """A client that has not said anything yet; of its server it needs a pipeline and `settle`."""
        return Client(cast(OneServer, self))

    def greet(
        self,
        client: Client,
        *,
        session_of: Client | None = None,
        timeout_ms: int = 10_000,
        flag: bytes = b"\0",
    ) -> None:
        """Send a connect request."""
        session_id, password = (session_of.session_id, session_of.password) if session_of else (0, bytes(16))
        client.send_raw(encode(ConnectRequest(0, 0, timeout_ms, session_id, password)) + flag)

    def connect(self, *, session_of: Client | None = None, timeout_ms: int = 10_000) -> Client:
        """A client with a session, once everybody has heard everything."""
        client = self.client()
        self.greet(client, session_of=session_of, timeout_ms=timeout_ms)
        self.settle()
        client.read_handshake()
        return client


class ToyLearner(ToyServer):
    """A follower, and the two queues between it and its leader (quorum.replica's Upstream and Origin)."""

    def __init__(
        self, ensemble: "ToyEnsemble", server_id: int, *, local_sessions: bool, upgrades_sessions: bool
    ) -> None:
        super().__init__(
            ensemble, server_id, local_sessions=local_sessions, upgrades_sessions=upgrades_sessions
        )
        self.learning = LearningPipeline(self.state, self.stored, self.sessions, self, FOLLOWER)
        self.pipeline = self.learning
        self.up: deque[Callable[[], None]] = deque()
        self.down: deque[Callable[[], None]] = deque()

    # -- Upstream

    def forward(self, session: int, cxid: int, op: int, body: bytes, ids: AuthIds | None) -> None:
        leading = self.ensemble.leading
        self.up.append(lambda: leading.forwarded(self, session, cxid, op, body, ids or ()))

    def revalidate(self, session: int, timeout_ms: int) -> None:
        self.up.append(lambda: self._revalidate(session, timeout_ms))

    def _revalidate(self, session: int, timeout_ms: int) -> None:
        is_valid = self.ensemble.leading.revalidate(self, session, timeout_ms)
        self.down.append(lambda: self.learning.revalidated(session, is_valid))

    def flush(self) -> None:
        """Nothing hangs on the end of a batch here."""

    # -- Origin

    def sync_done(self) -> None:
        self.down.append(self.learning.sync_done)


class ToyEnsemble:
    """A leader (server 1) and followers; `settle` delivers and commits everything."""

    def __init__(
        self,
        learners: int = 2,
        *,
        local_sessions: bool = False,
        upgrades_sessions: bool = False,
        epoch: int = 1,
    ) -> None:
        self.leader = ToyServer(
            self, LEADER_ID, local_sessions=local_sessions, upgrades_sessions=upgrades_sessions
        )
        self.payloads: list[bytes] = []
        self.uncommitted = 0
        self.leading = self._lead(epoch)
        self.learners = [
            ToyLearner(self, server_id, local_sessions=local_sessions, upgrades_sessions=upgrades_sessions)
            for server_id in range(LEADER_ID + 1, LEADER_ID + 1 + learners)
        ]
        self.pass_time(START_MS, START_WALL_MS)

    def _lead(self, epoch: int) -> LeadingPipeline:
        leader = self.leader
        leader.tree.last_zxid = epoch << 32
        local = leader.sessions
        enabled = leader.state.local_sessions
        sessions = LeaderSessions(TICK_MS, local.next_id, local, others_are_local=enabled)
        preparer = Preparer(leader.tree, sessions, leader.state.rules)
        leading = LeadingPipeline(leader.state, sessions, local, preparer, self)
        leader.pipeline = leading
        return leading

    @property
    def servers(self) -> list[ToyServer]:
        return [self.leader, *self.learners]

    def pass_time(self, ms: int, wall_ms: int | None = None) -> None:
        """The clocks of all servers go on; sessions whose time is up are told to close."""
        for server in self.servers:
            pipeline = server.pipeline
            wall_now_ms = pipeline.wall_ms + (ms if wall_ms is None else wall_ms)
            pipeline.begin_batch(pipeline.now_ms + ms, wall_now_ms)
            pipeline.expire_sessions()

    def touch(self) -> None:
        """Every learner tells whom it has heard."""
        for learner in self.learners:
            for session, timeout_ms in learner.learning.touched():
                self.leading.touch(session, timeout_ms)

    # -- Proposer

    def append(self, payload: bytes) -> None:
        self.payloads.append(payload)
        self.uncommitted += 1
        for learner in self.learners:
            learner.down.append(partial(learner.learning.proposed, payload))

    def flush(self) -> None:
        """Nothing hangs on the end of a batch here."""

    # -- what a test lets happen

    def commit(self, count: int) -> None:
        """The oldest so many proposals, or as many as there are, are committed."""
        left = min(count, self.uncommitted)
        self.uncommitted -= left
        while left:
            step = min(left, self.leading.sync_due - self.leading.tree.last_zxid)
            left -= step
            for learner in self.learners:
                learner.down.append(partial(learner.learning.committed, step))
            self.leading.committed(step)

    @property
    def has_anything_to_do(self) -> bool:
        return (
            self.uncommitted > 0
            or any(learner.up or learner.down for learner in self.learners)
            or any(server.pipeline.has_work_left for server in self.servers)
        )

    def settle(self) -> None:
        """Until nobody has anything to say: what was said may bring about more."""
        while self.has_anything_to_do:
            for server in self.servers:
                pipeline = server.pipeline
                if pipeline.has_work_left:
                    pipeline.begin_batch(pipeline.now_ms, pipeline.wall_ms)
                    pipeline.go_on()
            for learner in self.learners:
                deliver(learner.up, len(learner.up))
                deliver(learner.down, len(learner.down))
            self.commit(self.uncommitted)


def deliver(messages: deque[Callable[[], None]], count: int) -> None:
    """Hand over the oldest so many messages, or as many as there are."""
    for _ in range(min(count, len(messages))):
        messages.popleft()()


def path_body(path: str) -> bytes:
    """The body of a sync."""
    return pack(">i", len(path)) + path.encode()
