"""What the server counts about itself, for four-letter words and metrics.

Counting happens once for a batch of requests, not once for each: see client_protocol.py. How the numbers are
shown is in metrics.py.
"""

import attrs

from jute.opcodes import EventType
from quorum.peer_stats import PeerStats
from server.summaries import PercentileSummary, Sizes, Summary

_NODE_EVENTS = (
    EventType.NODE_CREATED,
    EventType.NODE_DELETED,
    EventType.NODE_DATA_CHANGED,
    EventType.NODE_CHILDREN_CHANGED,
)


_NAMESPACES_MAX = 1000
_NAMESPACE_BYTES_MAX = 256


@attrs.define(kw_only=True)
class EnsembleStats(PeerStats):
    """What only a member of an ensemble has to count.

    Latencies are read off once for all transactions that are committed together, from the oldest of them.
    """

    election_times: Summary = attrs.field(factory=Summary)
    unavailable_times: Summary = attrs.field(factory=Summary)
    leader_unavailable_times: Summary = attrs.field(factory=Summary)
    diffs_under_way: Summary = attrs.field(factory=Summary)
    snapshots_under_way: Summary = attrs.field(factory=Summary)
    follower_sync_times: Summary = attrs.field(factory=Summary)
    observer_sync_times: Summary = attrs.field(factory=Summary)
    proposal_sizes: Sizes = attrs.field(factory=Sizes)
    quorum_acks: PercentileSummary = attrs.field(factory=PercentileSummary)  # from preparing to committing
    commit_propagations: PercentileSummary = attrs.field(factory=PercentileSummary)  # until a learner hears
    propagations: PercentileSummary = attrs.field(factory=PercentileSummary)  # either, until applied here

    def reset(self) -> None:
        for name, value in attrs.asdict(EnsembleStats(), recurse=False).items():
            setattr(self, name, value)


@attrs.define
class ServerStats:
    """Counters since the start, or since the word srst; times are in milliseconds."""

    # Packets and bytes
    packets_received: int = 0
    packets_sent: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    word_bytes: int = 0  # of answers to four-letter words
    responses: Sizes = attrs.field(factory=Sizes)  # whole frames

    # Connections and sessions
    connections_made: int = 0
    connections_rejected: int = 0
    connections_dropped: int = 0
    connections_lost: int = 0  # the client closed the socket without closing its session
    connections_idle: int = 0  # closed because nothing was heard
    connect_requests: int = 0
    token_deficits: Summary = attrs.field(factory=Summary)  # of the throttle, at each connect request
    sessions_renewed: int = 0
    sessions_expired: int = 0
    auth_failures: int = 0

    # Requests
    reads: PercentileSummary = attrs.field(factory=PercentileSummary)  # from a request's arrival to its reply
    writes: PercentileSummary = attrs.field(factory=PercentileSummary)
    throttled_ops: int = 0
    large_requests_rejected: int = 0
    commits: int = 0

    # Watches
    watches_fired: int = 0
    watch_bytes: int = 0
    watchers_told: dict[int, Summary] = attrs.field(
        factory=lambda: {int(event): Summary() for event in _NODE_EVENTS}
    )  # how many connections watched a change, by the type of the event; changes nobody watched do not count

    # The disk
    fsyncs: PercentileSummary = attrs.field(factory=PercentileSummary)
    batch_sizes: Summary = attrs.field(factory=Summary)  # transactions that became durable together
    snapshots: int = 0
    snapshot_times: Summary = attrs.field(factory=Summary)
    snapshot_errors: int = 0
    snapshots_rate_limited: int = 0
    restore_times: Summary = attrs.field(factory=Summary)
    restore_errors: int = 0
    restores_rate_limited: int = 0
    load_times: Summary = attrs.field(factory=Summary)  # of the whole database, at the start
    snapshot_load_times: Summary = attrs.field(factory=Summary)
    replay_times: Summary = attrs.field(factory=Summary)
    txns_replayed: Summary = attrs.field(factory=Summary)
    digest_mismatches: int = 0
    unrecoverable_errors: int = 0

    ensemble: EnsembleStats = attrs.field(factory=EnsembleStats)  # the same one for ever: the peer holds it

    @property
    def requests(self) -> Summary:
        """Reads and writes together, as the words show them."""
        return Summary.of_all((self.reads, self.writes))

    def reset(self) -> None:
        """Start counting anew; failed authentications are not reset, as in the original."""
        self.ensemble.reset()
        fresh = ServerStats(auth_failures=self.auth_failures, ensemble=self.ensemble)
        for field in attrs.fields(ServerStats):
            setattr(self, field.name, getattr(fresh, field.name))
