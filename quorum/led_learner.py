"""A learner as its leader sees it. (The learner's own side is learner.py.)"""

from quorum.backlog import Backlog
from quorum.learner_links import LearnerLink
from quorum.packets import SYNC, packet


class Learner:
    """One connection of a learner (quorum.replica.Origin of what it forwards)."""

    def __init__(
        self,
        link: LearnerLink,
        server_id: int,
        backlog: Backlog,
        *,
        is_observer: bool,
        deadline_tick: float,
    ) -> None:
        self.link = link
        self.server_id = server_id
        self.backlog = backlog
        self.is_observer = is_observer
        self.is_forwarding = False  # it is sent every new proposal or commit
        self.is_gone = False
        self.is_synced = False  # it has acked NEWLEADER: before that it acks no proposal
        self.is_sending = False  # its queue is being sent: before that a ping would end up in a snapshot
        self.deadline_tick = deadline_tick
        self.logged = 0  # how far its log on disk reaches, by what it acked here, in this epoch
        self.awaited_ack: tuple[int, float] | None = None  # a proposal it was sent, and when

    def sync_done(self) -> None:
        self.link.send(packet(SYNC, 0))

    def sent_proposal(self, zxid: int, now: float) -> None:
        if self.awaited_ack is None and self.is_synced:
            self.awaited_ack = (zxid, now)

    def acked(self, zxid: int) -> None:
        if self.awaited_ack is not None and zxid >= self.awaited_ack[0]:
            self.awaited_ack = None
