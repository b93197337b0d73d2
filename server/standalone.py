"""A standalone server: a replica in a quorum of one, whose log is what orders its writes.

What is durable is committed, and there are no other roles. The tasks are those of replica.py.
"""

from typing import Self

from persistence.recovery import Progress, ignore_progress
from persistence.snapshots import take_snapshot_now
from server.client_sessions import Sessions
from server.config import ServerConfig
from server.data_tree import DataTree
from server.ordering import OrderingPipeline
from server.replica import Replica, snapshot_options
from server.world import World

STANDALONE_SERVER_ID = 1


class Standalone(Replica):
    """One server that orders its own writes."""

    keeps_committed = False

    @classmethod
    def start(cls, config: ServerConfig, world: World, progress: Progress = ignore_progress) -> Self:
        """Read the data directory and be ready to serve. Blocks, and may take long."""
        server = cls.open(config, world, server_id=STANDALONE_SERVER_ID, progress=progress)
        if _delete_ownerless_ephemerals(server.tree):
            # No transaction says so: without a snapshot, the next start would find them again, in the way
            # of what is created in their place from now on.
            options = snapshot_options(config)
            take_snapshot_now(world.disk, server.dirs.snap_dir, server.stored.view(), options)
        server.order()
        return server

    def order(self) -> None:
        """Order writes, and commit them as soon as they are durable."""
        sessions = self._new_sessions()
        self._open_known(sessions)
        local = Sessions(self.config.tick_ms, 0)  # there is nobody from whom to keep a session
        pipeline = OrderingPipeline(self.state, sessions, local, self.preparer(sessions), self.writer)
        self._assume(pipeline)
        self.on_logged(pipeline.committed)


def _delete_ownerless_ephemerals(tree: DataTree) -> bool:
    """A session missing from the table is closed: its nodes go, as they should have. Were there any?"""
    ownerless = [owner for owner in tree.ephemerals if owner not in tree.session_timeouts_ms]
    for session_id in ownerless:
        for path in list(tree.ephemerals[session_id]):
            tree.delete(path, tree.last_zxid)
    return bool(ownerless)
