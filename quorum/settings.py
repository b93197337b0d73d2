"""How long servers wait for each other, and a few other numbers of zoo.cfg that concern the ensemble."""

import attrs

from quorum.reconfiguration import ReconfigRules


@attrs.frozen(kw_only=True)
class PeerSettings:
    """Limits are in seconds here; zoo.cfg counts ticks."""

    tick_s: float
    init_limit_s: float  # to connect to a leader and take over its history
    sync_limit_s: float  # between two signs of life
    connect_limit_s: float  # to connect alone: connectToLearnerMasterLimit, or initLimit
    data_bytes_max: int  # of a packet: jute.maxbuffer and what is allowed above it
    reconfig: ReconfigRules = attrs.field(factory=ReconfigRules)
    force_snapshot_sync: bool = False
    observer_delay_s: float = 0.2  # at most, before an observer that lost its leader looks for another
    observer_reconnect_delay_s: float = 0.0  # at most, before it dials
    observer_master_port: int = 0  # where followers serve observers; 0: they do not
    observer_master_queued_bytes_max: int = 32 << 20  # for one observer: observerMaster.sizeLimit
    observer_logs: bool = True  # syncEnabled
    read_only_enabled: bool = False
    leader_host_is_any: bool = False  # quorumListenOnAllIPs
