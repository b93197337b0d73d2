"""A member of an ensemble put together: configuration in, a peer with its replica out.

The tasks are those of replica.py, and beside them `run`: elections, and one role after the other.
"""

import math
from collections.abc import Callable
from pathlib import Path

import attrs

from eventlog import log
from persistence.disk import Disk, read_chunks
from persistence.recovery import Progress, ignore_progress
from quorum.config_files import ConfigFiles
from quorum.election import ElectionTiming
from quorum.election_links import LinkSettings
from quorum.elector import ElectionSettings, Elector
from quorum.epochs import EpochKeeper
from quorum.membership import Membership
from quorum.network import Network
from quorum.peer import Peer
from quorum.reconfiguration import ReconfigRules
from quorum.server_lines import ClientAddress, config_text
from quorum.settings import PeerSettings
from server.config import ServerConfig
from server.ensemble_standing import standing_of
from server.replica import Replica
from server.standing import Standing
from server.world import World

_OBSERVER_QUEUE_BYTES_MIN = 4 << 20  # less could not hold the largest transactions


def peer_settings(config: ServerConfig) -> PeerSettings:
    tick_s = config.tick_ms / 1000
    connect_ticks = config.connect_to_learner_master_limit_ticks
    if connect_ticks <= 0:
        connect_ticks = config.init_limit_ticks
    return PeerSettings(
        tick_s=tick_s,
        init_limit_s=config.init_limit_ticks * tick_s,
        sync_limit_s=config.sync_limit_ticks * tick_s,
        connect_limit_s=connect_ticks * tick_s,
        data_bytes_max=config.jute_maxbuffer_bytes + config.jute_extrasize_bytes,
        reconfig=ReconfigRules(
            voters_min=2 if config.standalone_enabled else 1, multi_address=config.multi_address_enabled
        ),
        force_snapshot_sync=config.force_snapshot_sync,
        observer_delay_s=max(0, config.observer_election_delay_ms) / 1000,
        observer_reconnect_delay_s=max(0, config.observer_reconnect_delay_ms) / 1000,
        observer_master_port=config.observer_master_port,
        observer_master_queued_bytes_max=max(
            config.observer_master_size_limit_bytes, _OBSERVER_QUEUE_BYTES_MIN
        ),
        observer_logs=config.observer_sync_enabled,
        read_only_enabled=config.read_only_mode_enabled,
        leader_host_is_any=config.quorum_listen_on_all_ips,
    )


def election_settings(config: ServerConfig) -> ElectionSettings:
    initiation_ms = config.quorum_cnxn_timeout_ms
    if initiation_ms <= 0:
        initiation_ms = config.tick_ms * config.sync_limit_ticks
    return ElectionSettings(
        timing=ElectionTiming(
            resend_min_ms=config.election_notification_min_ms,
            resend_max_ms=config.election_notification_max_ms,
        ),
        links=LinkSettings(
            connect_timeout_s=config.cnx_timeout_ms / 1000 or math.inf,
            initiation_timeout_s=initiation_ms / 1000,
            bind_tries_max=config.election_port_bind_retry,
            listens_on_all=config.quorum_listen_on_all_ips,
            sends_all_addresses=config.multi_address_enabled,
            waits_for_address=config.reconfig_enabled,
        ),
        reconfig_enabled=config.reconfig_enabled,
    )


def ignore_client_address(address: ClientAddress) -> None:
    """Nobody listens for clients."""


@attrs.define(eq=False)
class EnsembleMember:
    """One server of an ensemble. `on_client_address` is told where clients are to come in from now on, if a
    reconfiguration moves that."""

    config: ServerConfig
    replica: Replica
    membership: Membership
    peer: Peer
    on_client_address: Callable[[ClientAddress], None] = ignore_client_address
    _client: ClientAddress | None = None
    _shown_version: int | None = None

    @classmethod
    def open(
        cls,
        config: ServerConfig,
        world: World,
        network: Network,
        *,
        config_path: Path | None = None,
        progress: Progress = ignore_progress,
    ) -> "EnsembleMember":
        """Read the data directory and be ready to take part. Blocks, and may take long."""
        assert config.my_id is not None
        replica = Replica.open(config, world, server_id=config.my_id, progress=progress)
        epochs = EpochKeeper(world.disk, replica.dirs.snap_dir, replica.last_zxid)
        membership = _membership(config, world.disk, config_path)
        elector = Elector(
            config.my_id,
            network,
            election_settings(config),
            membership.committed,
            last_seen=membership.last_seen,
            ask_oracle=oracle_of(config, world.disk),
        )
        peer = Peer(
            settings=peer_settings(config),
            membership=membership,
            network=network,
            replica=replica,
            epochs=epochs,
            elector=elector,
            offload=world.snapshot_offload,
            random=world.random,
            stats=replica.state.stats.ensemble,
        )
        member = cls(config, replica, membership, peer, client=membership.me.client)
        membership.on_change(lambda: elector.set_members(membership.committed, membership.last_seen))
        membership.on_change(member._show_config)
        membership.on_change(member._follow_client_address)
        member._show_config()
        return member

    def _show_config(self) -> None:
        """Let clients read who is in the ensemble."""
        committed = self.membership.committed
        if committed.version != self._shown_version:
            self._shown_version = committed.version
            self.replica.set_config(config_text(committed), committed.version)

    def _follow_client_address(self) -> None:
        client = self.membership.me.client
        if client is not None and client != self._client:
            self._client = client
            self.on_client_address(client)

    async def run(self) -> None:
        """Take part until cancelled."""
        await self.peer.run()

    def standing(self) -> Standing:
        """What operators are shown."""
        return standing_of(self.config, self.membership, self.peer, self.replica)


def _membership(config: ServerConfig, disk: Disk, config_path: Path | None) -> Membership:
    assert config.my_id is not None
    files, last_seen = None, None
    if config_path is not None and config.reconfig_enabled:
        files = ConfigFiles(disk, config_path)
        if config.dynamic_config_file is None:  # the operator's own list, and what came before it is void
            files.back_up()
        else:
            last_seen = files.load_next()
    return Membership(
        config.my_id,
        config.ensemble,
        last_seen=last_seen,
        reconfig_enabled=config.reconfig_enabled,
        files=files,
        ask_oracle=oracle_of(config, disk),
    )


def oracle_of(config: ServerConfig, disk: Disk) -> Callable[[], bool] | None:
    """Asks whether the oracle's file begins with a 1; one that cannot be read says no."""
    path = config.oracle_path
    if path is None:
        return None

    def ask() -> bool:
        try:
            return next(read_chunks(disk, path), b"").startswith(b"1")
        except OSError as failure:
            log.warning("oracle_does_not_answer", file=str(path), reason=str(failure))
            return False

    return ask
