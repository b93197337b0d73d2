"""A server's real state (tree, log, snapshots, epochs) on a disk that can be slow, fail, or lose power.

Its transactions create a node each, named after the zxid: what a server has is the list of its nodes.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import TypeVar, TypeVarTuple

import trio
from trio.testing import wait_all_tasks_blocked

from jute.zxid import counter_of, epoch_of
from persistence.epoch_files import ACCEPTED_EPOCH, CURRENT_EPOCH, write_epoch
from persistence.log_writer import OFFLOADED_IN_A_ROW_MIN
from server.acls import OPEN_ACL
from server.clock import SystemClock
from server.config import ServerConfig
from server.replica import Replica
from server.txns import CREATE, Txn, seal
from server.world import World
from tests.persistence.memory_disk import Killed, MemoryDisk

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

DATA_DIR = Path("/data")
FILES = DATA_DIR / "version-2"


def name_of(zxid: int) -> str:
    return f"/{epoch_of(zxid)}-{counter_of(zxid)}"


def names_of(zxids: Iterable[int]) -> list[str]:
    return sorted(map(name_of, zxids))


def creating(zxid: int) -> bytes:
    """A transaction: its node says which it is."""
    args = (name_of(zxid).encode(), b"\0\0\0\0", OPEN_ACL, 0, -1)
    return seal(Txn(1, counter_of(zxid), zxid, 1000, CREATE, args, None)).payload


async def _at_once(fn: Callable[[*Ts], T], *args: *Ts) -> T:
    await trio.lowlevel.checkpoint()
    return fn(*args)


class ServerMachine:
    """The disk stays; the server on it is started, crashed and started again."""

    replica: Replica

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.is_dead = False  # the process ended by itself
        self.failure: BaseException | None = None  # of the disk
        self._log_may_be_written = trio.Event()
        self._log_may_be_written.set()
        self._scope = trio.CancelScope()

    def with_history(self, zxids: Iterable[int], *, accepted: int, current: int) -> "ServerMachine":
        """As if it had logged these, and entered this epoch, long ago."""
        replica = self.opened()
        replica.txn_log.append_batch(list(map(creating, zxids)))
        replica.txn_log.close()
        write_epoch(self.disk, FILES, ACCEPTED_EPOCH, accepted)
        write_epoch(self.disk, FILES, CURRENT_EPOCH, current)
        return self

    def opened(self) -> Replica:
        """A replica of what is on the disk."""
        config = ServerConfig(data_dir=DATA_DIR, preallocate_bytes=0, digest_enabled=False)
        world = World(
            disk=self.disk,
            log_offload=self._write_log,
            snapshot_offload=_at_once,
            random=Random(7),
            clock=SystemClock(),
            stopwatch=lambda: 0.0,
        )
        return Replica.open(config, world, server_id=1)

    async def _write_log(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        await self._log_may_be_written.wait()
        return fn(*args)

    async def boot(self, nursery: trio.Nursery) -> trio.Nursery:
        """Returns the nursery of what runs on it: a crash ends all of that."""
        self.replica = self.opened()
        self._scope = trio.CancelScope()
        tasks: trio.Nursery = await nursery.start(self._run)
        return tasks

    async def _run(self, task_status: trio.TaskStatus[trio.Nursery]) -> None:
        try:
            with self._scope:
                async with trio.open_nursery() as tasks:
                    tasks.start_soon(self.replica.write_log)
                    tasks.start_soon(self.replica.work_off)
                    tasks.start_soon(self.replica.take_snapshots)
                    task_status.started(tasks)
                    await trio.sleep_forever()
        except* Killed:
            self.is_dead = True
        except* OSError as failures:
            self.is_dead = True
            self.failure = failures

    async def crash(self, chance: int | None = 0) -> None:
        """The power goes; or, without a chance, only the process."""
        self._scope.cancel()
        await wait_all_tasks_blocked()
        if chance is None:
            self.disk.revive()
        else:
            self.disk.lose_power(Random(chance))

    # -- its disk

    def hold_log(self) -> None:
        """What is handed to the log from now on is not written, the first few times."""
        assert OFFLOADED_IN_A_ROW_MIN >= 8
        self._log_may_be_written = trio.Event()

    async def release_log(self) -> None:
        self._log_may_be_written.set()
        await wait_all_tasks_blocked()

    # -- what it has

    def names(self) -> list[str]:
        """Of the nodes in its tree."""
        return _names_in(self.replica)

    def names_on_disk(self) -> list[str]:
        """Of the nodes that a start would find. Nothing may run meanwhile that writes."""
        return _names_in(self.opened())


def _names_in(replica: Replica) -> list[str]:
    view = replica.stored.view()
    view.snapshot_acls()
    nodes = (path.decode() for path, _, _, _ in view.snapshot_nodes())
    return sorted(name for name in nodes if name not in ("/", "") and not name.startswith("/zookeeper"))
