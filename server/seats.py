"""What the quorum sees of a server in its role: quorum.replica's LeaderService and LearnerService.

Thin shells around the pipelines: they tell them the time and let replies leave. A seat is given up by
`Replica.retire`; nothing may be asked of it afterwards.
"""

from typing import TYPE_CHECKING

from quorum.replica import AuthIds, Origin
from server.leading import LeadingPipeline
from server.learning import LearningPipeline

if TYPE_CHECKING:
    from server.replica import Replica


class LeaderSeat:
    """The server while it leads (quorum.replica.LeaderService)."""

    def __init__(self, replica: "Replica", pipeline: LeadingPipeline) -> None:
        self._replica = replica
        self._pipeline = pipeline

    @property
    def sync_due(self) -> int:
        return self._pipeline.sync_due

    @property
    def deferred(self) -> int:
        return self._pipeline.deferred

    def committed(self, count: int) -> None:
        self._pipeline.committed(count)

    def forwarded(self, origin: Origin, session: int, cxid: int, op: int, body: bytes, ids: AuthIds) -> None:
        self._pipeline.forwarded(origin, session, cxid, op, body, ids)

    def revalidate(self, origin: Origin, session: int, timeout_ms: int) -> bool:
        return self._pipeline.revalidate(origin, session, timeout_ms)

    def touch(self, session: int, timeout_ms: int) -> None:
        self._pipeline.touch(session, timeout_ms)

    def begin_batch(self) -> None:
        self._replica.begin_batch()

    def end_batch(self) -> None:
        self._replica.end_batch()


class LearnerSeat:
    """The server while it follows or observes (quorum.replica.LearnerService)."""

    def __init__(self, replica: "Replica", pipeline: LearningPipeline) -> None:
        self._replica = replica
        self._pipeline = pipeline

    def proposed(self, payload: bytes) -> None:
        self._pipeline.proposed(payload)

    def committed(self, count: int) -> None:
        self._pipeline.committed(count)

    def sync_done(self) -> None:
        self._pipeline.sync_done()

    def revalidated(self, session: int, is_valid: bool) -> None:
        self._pipeline.revalidated(session, is_valid)

    def session_left(self, session: int) -> None:
        self._pipeline.session_left(session)

    def touched(self) -> list[tuple[int, int]]:
        return self._pipeline.touched()

    def begin_batch(self) -> None:
        self._replica.begin_batch()

    def end_batch(self) -> None:
        self._replica.end_batch()
