"""Where servers are watched from outside: the few functions through which all of them log, apply and lead.

Nothing of a server is changed by this, only noted, and only while its process is alive.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import persistence.txn_log
import server.pipeline
from jute.client_records import GetDataResponse
from jute.record import decode
from persistence.log_format import zxid_of
from quorum.discovery import ALREADY_ACCEPTED, EpochAgreement, Summary
from quorum.epochs import EpochKeeper
from server.replica import Replica
from server.standalone import Standalone
from tests.sim.checkers import STANDALONE_EPOCH, Checker
from tests.sim.disk import OpenedForWriting
from tests.sim.machines import Machine
from tests.sim.model import Node
from tests.sim.stored_history import logs_on
from tests.sim.virtual_time import PROCESS


@contextmanager
def observed(machines: dict[str, Machine], checker: Checker, *, observers_log: bool) -> Iterator[None]:
    """As long as this lasts, `checker` is told what the servers on these machines do."""

    def logs(named: dict[str, object]) -> bool:
        return observers_log or not named["is_observer"]

    def here() -> Machine | None:
        machine = machines.get(PROCESS.get())
        return machine if machine is not None and machine.is_up else None

    def append_batch(original: Callable[..., None], log: Any, payloads: Sequence[bytes]) -> None:
        machine = here()
        if machine is not None:
            checker.server_logged(machine.name, payloads)  # before it can die in the middle of it
        file = log._file
        original(log, payloads)
        file = log._file or file
        if machine is not None and file is None:  # it was made and finished by this one batch
            machine.read_its_disk()
        elif machine is not None and isinstance(file, OpenedForWriting) and file.is_safe:
            machine.safe_zxids.update(map(zxid_of, payloads))

    def apply_txn(original: Callable[..., Any], tree: Any, txn: Any) -> Any:
        machine = here()
        if machine is not None:
            checker.server_applied(machine.name, txn.payload)
        return original(tree, txn)

    def lead(original: Callable[..., Any], replica: Replica, epoch: int, proposer: object) -> Any:
        begins_to_order(replica, epoch)
        return original(replica, epoch, proposer)

    def order(original: Callable[..., Any], replica: Replica) -> Any:
        begins_to_order(replica, STANDALONE_EPOCH)
        return original(replica)

    def begins_to_order(replica: Replica, epoch: int) -> None:
        machine = here()
        if machine is not None:
            machine.counts["terms"] += 1
            checker.server_leads(machine.name, epoch, replica.last_zxid)
            checker.check_role(machine.name, replica.last_zxid, nodes_of(replica.tree))
            check_disk(machine, replica, must_reach_snapshot=True)
            checker.server_restarts_from(machine.name, replica.last_zxid)

    def check_disk(machine: Machine, replica: Replica, *, must_reach_snapshot: bool) -> None:
        checker.check_disk(
            machine.name,
            machine.disk,
            must_reach_snapshot=must_reach_snapshot,
            has_old_logs=machine.has_old_logs,
            gapless_after=replica._gapless_after,
        )

    def learn(original: Callable[..., Any], replica: Replica, *args: object, **named: object) -> Any:
        machine = here()
        if machine is not None:
            checker.server_restarts_from(machine.name, replica.last_zxid)
            check_disk(machine, replica, must_reach_snapshot=logs(named))
            checker.check_role(machine.name, replica.last_zxid, nodes_of(replica.tree))
        return original(replica, *args, **named)

    def check_saving(replica: Replica, why: str) -> None:
        """Recovery replays the log over a snapshot: what is taken back must not have got into one."""
        machine = here()
        if machine is not None and replica._saving.locked():
            checker.note(f"{machine.name} saves its tree while {why}")

    def logged_unapplied(original: Callable[..., Any], replica: Replica) -> Any:
        check_saving(replica, "it applies what may never be committed")
        return original(replica)

    async def begin_restore(original: Callable[..., Any], replica: Replica) -> Any:
        restoring = await original(replica)
        check_saving(replica, "it takes over a leader's")
        return restoring

    async def adopt_snapshot(original: Callable[..., Any], replica: Replica) -> None:
        machine = here()
        if machine is None:
            await original(replica)
            return
        machine.adopts_snapshot()
        before = logs_on(machine.disk) if machine.keeps_old_logs else {}
        await original(replica)
        machine.read_its_disk()
        machine.adopted_snapshot(before, replica.tree.last_zxid)

    async def fetched(original: Callable[..., Any], replica: Replica) -> None:
        machine = here()
        await original(replica)
        if machine is not None:
            machine.has_fetched()

    def load(original: Callable[..., Any], replica: Replica, *args: object) -> None:
        check_saving(replica, "it loads it from its disk")
        original(replica, *args)
        machine = here()
        if machine is not None:
            machine.read_its_disk()
            nodes, is_damaged = nodes_of(replica.tree), machine.disk.is_damaged
            checker.check_loaded(machine.name, replica.last_zxid, nodes, is_damaged=is_damaged)

    def truncate_after(original: Callable[..., int | None], log: Any, zxid: int) -> int | None:
        last = original(log, zxid)
        machine = here()
        if machine is not None:
            machine.read_its_disk()
            checker.log_cut(machine.name, zxid, machine.safe_zxids)
        return last

    def accept(original: Callable[..., None], keeper: EpochKeeper, epoch: int) -> None:
        machine = here()
        if machine is not None:
            machine.accepted_epoch = epoch
        original(keeper, epoch)

    def enter(original: Callable[..., None], keeper: EpochKeeper, epoch: int) -> None:
        machine = here()
        if machine is not None and machine.server is not None and machine.is_voter:
            checker.epoch_entered(machine.name, machine.server.last_zxid, machine.holds)
        original(keeper, epoch)

    def acked(
        original: Callable[..., bool],
        agreement: EpochAgreement,
        server_id: int,
        theirs: Summary,
        **named: Any,
    ) -> bool:
        machine = here()
        if machine is not None and theirs.current_epoch != ALREADY_ACCEPTED:
            promising = machines.get(f"s{server_id}")
            if promising is not None:
                checker.epoch_promised(promising.name, agreement.epoch, machine.name, promising.disk.wipes)
        return original(agreement, server_id, theirs, **named)

    with (
        _wrapped(EpochKeeper, "accept", accept),
        _wrapped(EpochKeeper, "enter", enter),
        _wrapped(EpochAgreement, "acked", acked),
        _wrapped(persistence.txn_log.TxnLog, "append_batch", append_batch),
        _wrapped(persistence.txn_log.TxnLog, "truncate_after", truncate_after),
        _wrapped(server.pipeline, "apply_txn", apply_txn),
        _wrapped(server.pipeline, "LongApplication", apply_txn),
        _wrapped(Replica, "load", load),
        _wrapped(Replica, "lead", lead),
        _wrapped(Replica, "learn", learn),
        _wrapped(Replica, "adopt_snapshot", adopt_snapshot),
        _wrapped(Replica, "fetched", fetched),
        _wrapped(Replica, "_logged_unapplied", logged_unapplied),
        _wrapped(Replica, "begin_restore", begin_restore),
        _wrapped(Standalone, "order", order),
    ):
        yield


@contextmanager
def _wrapped(owner: Any, name: str, wrapper: Callable[..., Any]) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, lambda *args, **named: wrapper(original, *args, **named))
    try:
        yield
    finally:
        setattr(owner, name, original)


def nodes_of(tree: Any) -> dict[str, Node]:
    """A server's tree as the model has it."""
    nodes = {}
    for path, body in tree.bodies.items():
        name = path.decode()
        if name == "/" or name.startswith("/zookeeper"):
            continue
        reply, _ = decode(GetDataResponse, body)
        stat = reply.stat
        children = frozenset(child.decode().rpartition("/")[2] for child in tree.children.get(path, ()))
        nodes[name] = Node(
            reply.data or b"",
            stat.czxid,
            stat.mzxid,
            stat.ctime,
            stat.mtime,
            stat.version,
            stat.ephemeral_owner,
            stat.pzxid,
            (stat.cversion + stat.num_children) // 2,
            children,
        )
    return nodes
