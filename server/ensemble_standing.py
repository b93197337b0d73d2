"""What operators are shown of a member of an ensemble: its role, and how far it and its learners are."""

from jute.quorum_records import ServerState
from quorum.leader import Leader
from quorum.learner import Learning
from quorum.membership import Membership
from quorum.peer import Peer
from quorum.server_lines import Role, config_text
from server.config import ServerConfig
from server.ordering import OrderingPipeline
from server.pipeline import Pipeline
from server.replica import Replica
from server.standing import Standing

_STATES = {
    ServerState.LOOKING: "looking",
    ServerState.LEADING: "leading",
    ServerState.FOLLOWING: "following",
    ServerState.OBSERVING: "observing",
}
_NO_MASTER = -1


def standing_of(config: ServerConfig, membership: Membership, peer: Peer, replica: Replica) -> Standing:
    pipeline, leader, learning = replica.pipeline, peer.leader, peer.learning
    if pipeline.is_read_only:
        return Standing(mode=pipeline.mode, ensemble_conf=_own_conf(config, membership))
    values: dict[str, str | int] = {"peer_state": _peer_state(peer)}
    gauges = {"quorum_size": len(membership.committed.voters)}
    if peer.state is ServerState.OBSERVING:
        values["observer_master_id"] = _master_id(learning)
    if leader is not None:
        gauges |= _leader_gauges(leader, membership, pipeline)
    elif learning is not None and learning.observer_master is not None:
        gauges["synced_observers"] = learning.observer_master.synced_count
    return Standing(
        mode=pipeline.mode,
        is_serving=pipeline.is_serving,
        monitor_values=values,
        gauges=gauges,
        proposals=None if leader is None else pipeline.stats.ensemble.proposal_sizes,
        ensemble_conf=_own_conf(config, membership) + _members_conf(membership),
    )


def _peer_state(peer: Peer) -> str:
    state = _STATES[peer.state]
    return f"{state} - {peer.phase}" if peer.phase else state


def _master_id(learning: Learning | None) -> int:
    return _NO_MASTER if learning is None or learning.master_id is None else learning.master_id


def _leader_gauges(leader: Leader, membership: Membership, pipeline: Pipeline) -> dict[str, int]:
    """A learner counts as synced from the moment it is sent every new proposal or commit."""
    synced = [each for each in leader.learners if each.is_forwarding]
    followers = [each for each in synced if not each.is_observer]
    sizes = pipeline.stats.ensemble.proposal_sizes
    return {
        "learners": len(leader.learners),
        "synced_followers": len(followers),
        "synced_non_voting_followers": sum(
            each.server_id not in membership.committed.voters for each in followers
        ),
        "synced_observers": len(synced) - len(followers),
        "pending_syncs": pipeline.pending_syncs if isinstance(pipeline, OrderingPipeline) else 0,
        "leader_uptime": leader.uptime_ms,
        "last_proposal_size": sizes.last,
        "max_proposal_size": sizes.largest,
        "min_proposal_size": sizes.smallest,
    }


def _own_conf(config: ServerConfig, membership: Membership) -> str:
    addresses = membership.me.addresses
    lines = [
        f"initLimit={config.init_limit_ticks}",
        f"syncLimit={config.sync_limit_ticks}",
        f"electionAlg={config.election_alg}",
        f"electionPort={'|'.join(str(each.election_port) for each in addresses)}",
        f"quorumPort={'|'.join(str(each.quorum_port) for each in addresses)}",
        f"peerType={int(membership.role is Role.OBSERVER)}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _members_conf(membership: Membership) -> str:
    return f"membership: \n{config_text(membership.committed)}"
