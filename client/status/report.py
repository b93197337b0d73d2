"""The verdict on an ensemble, from what each of its servers said.

What always holds: a quorum is claimed only by a server that serves and is part of one; nothing is claimed for
a member that could not be asked.
"""

import enum
from collections.abc import Sequence
from typing import Any

import attrs

from client.status.answers import ServerFacts
from client.status.members import Member

EPOCH_BITS = 32
COUNTER_MASK = 0xFFFF_FFFF


class Verdict(enum.IntEnum):
    """The exit codes of `triokeeper status`."""

    ALL_IN = 0
    MEMBER_MISSING = 1
    NO_QUORUM = 2
    UNREACHABLE = 3


@attrs.frozen
class ServerReport:
    """One server: what it said, or why it said nothing."""

    member: Member
    facts: ServerFacts | None = None
    problem: str | None = None

    @property
    def role(self) -> str:
        """What it is now, in one or two words."""
        if self.facts is not None:
            return self.facts.mode or "not serving"
        return "unknown" if self.member.address is None else "unreachable"

    @property
    def is_serving(self) -> bool:
        return self.facts is not None and self.facts.is_serving


@attrs.frozen
class Report:
    """All servers at one moment."""

    servers: tuple[ServerReport, ...]
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        if not any(server.facts for server in self.servers):
            return Verdict.UNREACHABLE
        if not any(server.is_serving for server in self.servers):
            return Verdict.NO_QUORUM
        silent = [server for server in self.servers if not server.is_serving]
        if not silent or (self._are_unnamed(silent) and self._leader_has_all):
            return Verdict.ALL_IN
        return Verdict.MEMBER_MISSING

    @property
    def leader(self) -> ServerReport | None:
        return next((s for s in self.servers if s.facts and s.facts.mode == "leader"), None)

    @staticmethod
    def _are_unnamed(servers: Sequence[ServerReport]) -> bool:
        return all(server.member.address is None for server in servers)

    @property
    def _leader_has_all(self) -> bool:
        """The leader counts as many learners as there are members, so those without an address are in."""
        facts = self.leader.facts if self.leader else None
        if facts is None or facts.synced_followers is None:
            return False
        observers = sum(server.member.is_observer for server in self.servers)
        return (facts.synced_followers, facts.synced_observers or 0) == (
            len(self.servers) - observers - 1,
            observers,
        )

    def lag_of(self, server: ServerReport) -> int | None:
        """How many transactions it is behind the leader or, without one, behind whoever is foremost.

        Servers are asked at the same moment, not at the same instant: under load, a few mean nothing.
        """
        zxids = [s.facts.zxid for s in self.servers if s.facts and s.facts.zxid is not None]
        own = server.facts.zxid if server.facts else None
        if own is None:
            return None
        leader = self.leader.facts.zxid if self.leader and self.leader.facts else None
        foremost = max(zxids) if leader is None else leader
        if own >> EPOCH_BITS != foremost >> EPOCH_BITS:  # at least what the new epoch has seen
            return 0 if own > foremost else foremost & COUNTER_MASK
        return max(0, foremost - own)

    def as_json(self) -> dict[str, Any]:
        leader = self.leader
        return {
            "verdict": self.verdict.name.lower().replace("_", "-"),
            "exit_code": int(self.verdict),
            "quorum": self.verdict <= Verdict.MEMBER_MISSING,
            "leader": leader.member.server_id if leader else None,
            "servers": [self._server_as_json(server) for server in self.servers],
            "notes": list(self.notes),
        }

    def _server_as_json(self, server: ServerReport) -> dict[str, Any]:
        facts = server.facts or ServerFacts()
        address = server.member.address
        return {
            "id": server.member.server_id,
            "host": address[0] if address else None,
            "port": address[1] if address else None,
            "role": server.role,
            "serving": server.is_serving,
            "version": facts.version,
            "zxid": None if facts.zxid is None else f"0x{facts.zxid:x}",
            "epoch": None if facts.zxid is None else facts.zxid >> EPOCH_BITS,
            "lag": self.lag_of(server),
            "connections": facts.connections,
            "sessions": facts.sessions,
            "latency_avg_ms": facts.latency_avg_ms,
            "latency_max_ms": facts.latency_max_ms,
            "outstanding": facts.outstanding,
            "nodes": facts.nodes,
            "data_bytes": facts.data_bytes,
            "problem": server.problem,
        }
