"""What a server still has when nobody uses it any more: nothing may have grown over a run.

Looked at when all clients are gone and all sessions are over.
"""

from collections.abc import Iterator
from typing import Any

import trio

from server.leading import LeadingPipeline
from server.learning import LearningPipeline
from server.replica import Replica
from tests.sim.machines import Machine
from tests.sim.network import HostNetwork
from tests.sim.virtual_time import PROCESS

# For each other server: an election link, a link between leader and learner, and one of each about to end.
_STREAMS_PER_SERVER_MAX = 4
_TASKS_BESIDE_STREAMS_MAX = 30
_TASKS_PER_STREAM_MAX = 5


def leftovers(machine: Machine, servers: int) -> Iterator[str]:
    """What it ought not to have, in words."""
    assert machine.server is not None
    streams = _streams(machine.network)
    if streams > _STREAMS_PER_SERVER_MAX * (servers - 1):
        yield f"{streams} connections"
    tasks = _tasks_of(machine.name)
    if tasks > _TASKS_BESIDE_STREAMS_MAX + _TASKS_PER_STREAM_MAX * servers:
        yield f"{tasks} tasks"
    for name, table in _tables(machine.server):
        if table:
            yield f"{name}: {table}"


def _streams(network: HostNetwork) -> int:
    return len(network.streams)


def _tasks_of(process: str) -> int:
    """All tasks that a process has started, by the name that each inherits."""
    root = trio.lowlevel.current_root_task()
    assert root is not None
    count, waiting = 0, [root]
    while waiting:
        task = waiting.pop()
        count += task.context.get(PROCESS, "") == process
        for nursery in task.child_nurseries:
            waiting.extend(nursery.child_tasks)
    return count


def _tables(replica: Replica) -> Iterator[tuple[str, Any]]:
    """Everything that should be empty now."""
    pipeline, watches = replica.pipeline, replica.state.watches
    yield "clients", list(pipeline.connections)
    yield "connections", list(replica.connections())
    yield "writes in flight", len(pipeline.in_flight)
    yield "bytes in flight", pipeline.outstanding_bytes
    yield "reads that wait", pipeline.queued_reads
    yield "connections to go on with", len(pipeline.resumable)
    yield "work that takes long", pipeline.has_work_left
    yield "replies not sent", replica.state.unsent_bytes
    for name in ("data_once", "child_once", "persistent", "recursive"):
        yield f"watches ({name})", getattr(watches, name)
    if isinstance(pipeline, LeadingPipeline):
        yield "owners of sessions", pipeline.owners
        yield "sessions", list(pipeline.sessions.by_id)
        yield "syncs", pipeline.pending_syncs
        yield "changes not applied", list(pipeline.preparer.pending)
    if isinstance(pipeline, LearningPipeline):
        yield "writes that wait for the leader", pipeline._waiting
        yield "syncs that wait for the leader", list(pipeline._syncs)
        yield "sessions to be revalidated", pipeline._revalidating
