"""What runs on the machines: the real server, put together as server/run.py does it, on virtual ground."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import trio

from quorum.server_lines import Ensemble
from server.client_fronts import FrontLimits
from server.config import ServerConfig
from server.ensemble_member import EnsembleMember
from server.replica import Replica
from server.standalone import Standalone
from server.stream_front import StreamFront
from server.world import World
from tests.sim.clients import CLIENT_PORT
from tests.sim.machines import DATA_DIR, Machine
from tests.sim.membership_on_disk import CONFIG_FILE, Found, prepare_members, removed_in
from tests.sim.network import VirtualStream
from tests.sim.oracle import ORACLE_FILE
from tests.sim.scenario import Scenario
from tests.sim.thresholds import SETTING

LOG_DIR = Path("/log")
OBSERVER_MASTER_PORT = 2191
SYNC_LIMIT_TICKS = 5
_PREALLOCATED_BYTES = 16 * 1024
_REAPED_EVERY_MS = 1500
_FRONT_LIMITS = FrontLimits(per_address_max=0)


def server_config(scenario: Scenario, my_id: int | None, members: Found) -> ServerConfig:
    return ServerConfig(
        data_dir=DATA_DIR,
        data_log_dir=LOG_DIR if scenario.has_own_log_dir else DATA_DIR,
        client_port=CLIENT_PORT,
        tick_ms=scenario.tick_ms,
        init_limit_ticks=10,
        sync_limit_ticks=SYNC_LIMIT_TICKS,
        snap_count=scenario.snap_count,
        snapshot_compression=scenario.snapshot_compression,
        snapshot_size_factor=scenario.snapshot_size_factor,
        force_snapshot_sync=scenario.force_snapshot_sync,
        txn_log_size_limit_bytes=scenario.log_size_limit_bytes,
        commit_log_count=scenario.commit_log_count,
        digest_enabled=scenario.has_digests,
        observer_sync_enabled=scenario.observers_log,
        my_id=my_id,
        ensemble=members.ensemble,
        dynamic_config_file=members.dynamic_file,
        reconfig_enabled=scenario.is_reconfigured,
        leader_serves=scenario.leader_serves,
        observer_master_port=OBSERVER_MASTER_PORT if scenario.has_observer_masters else 0,
        local_sessions_enabled=scenario.has_local_sessions,
        local_sessions_upgrading_enabled=scenario.has_local_sessions,
        skip_acl=scenario.is_reconfigured,
        oracle_path=ORACLE_FILE if scenario.has_oracle else None,
        read_only_mode_enabled=scenario.has_read_only_mode,
        autopurge_interval_hours=1 if scenario.purges else 0,
        container_check_ms=_REAPED_EVERY_MS,
        **{"preallocate_bytes": _PREALLOCATED_BYTES, **_limits(scenario)},
    )


def _limits(scenario: Scenario) -> dict[str, Any]:
    """The thresholds that are settings."""
    return {
        name.removeprefix(SETTING): value for name, value in scenario.thresholds if name.startswith(SETTING)
    }


def world_of(machine: Machine) -> World:
    return World(
        disk=machine.mounted,
        log_offload=machine.log_offload,
        log_begin=machine.log_offload.begin,
        snapshot_offload=machine.snapshot_offload,
        random=machine.random,
        clock=machine.clock,
        stopwatch=lambda: machine.disk.busy_s,
        cpu_clock=None,
    )


async def run_standalone(scenario: Scenario, machine: Machine) -> None:
    server = Standalone.start(server_config(scenario, None, Found(Ensemble(), None)), world_of(machine))
    await _serve(scenario, machine, server, trio.sleep_forever)


async def run_member(scenario: Scenario, machine: Machine) -> None:
    my_id = machine.server_id
    version = removed_in(machine.mounted, my_id)
    while version is not None and not machine.are_members_in_force(version):  # noqa: ASYNC110
        # Its operator lets it in again once the others have agreed that it is out: as a new member it knows
        # nothing of that, and would vote as one of those whom they go by.
        await trio.sleep(scenario.tick_ms / 1000)
    config = server_config(scenario, my_id, prepare_members(machine.mounted, scenario, my_id))
    member = machine.member = EnsembleMember.open(
        config, world_of(machine), machine.network, config_path=CONFIG_FILE
    )
    await _serve(scenario, machine, member.replica, member.run)


async def _serve(
    scenario: Scenario, machine: Machine, replica: Replica, run: Callable[[], Awaitable[None]]
) -> None:
    machine.server = replica
    front = StreamFront(replica.pipeline, _FRONT_LIMITS, machine.clock)
    replica.fronts.append(front)
    async with trio.open_nursery() as storage:
        storage.start_soon(replica.write_log)
        async with trio.open_nursery() as serving:
            listeners = await machine.network.listen(None, CLIENT_PORT)
            serving.start_soon(partial(trio.serve_listeners, partial(_serve_client, front), list(listeners)))
            serving.start_soon(replica.work_off)
            serving.start_soon(replica.tick)
            serving.start_soon(replica.take_snapshots)
            serving.start_soon(replica.purge_old_files)
            if scenario.reaps:
                serving.start_soon(replica.reap_containers)
            serving.start_soon(run)


async def _serve_client(front: StreamFront, stream: VirtualStream) -> None:
    await front.serve(stream, stream.peer_name, 40_000)
