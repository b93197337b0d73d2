"""Followers that acknowledge before NEWLEADER what they were sent, as Apache's before 3.9.4 (ZOOKEEPER-4685).

They have it on disk by then, but have not entered their leader's epoch: in an election they count for less
than a server that has entered it without. So a leader must not commit on the strength of such an ack before
it has that of NEWLEADER too; nor must it take offence at acks of what was committed long ago.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import trio

from quorum.learner import Learning
from quorum.learner_links import LearnerLink
from quorum.packets import ACK, SNAP, packets_without_data
from quorum.replica import LearnerService
from tests.sim.machines import Machine
from tests.sim.plants import replaced
from tests.sim.virtual_time import PROCESS

_PAUSE_S_MAX = 0.05  # between those acks and the epoch


@contextmanager
def early_acks(machines: Mapping[str, Machine], counts: Counter[str]) -> Iterator[None]:
    """As long as this lasts, the servers on those of the machines do so that are meant to."""
    committed: WeakKeyDictionary[Learning, list[int]] = WeakKeyDictionary()
    logged: WeakKeyDictionary[Learning, set[int]] = WeakKeyDictionary()

    def commit_now(original: Callable[..., None], learning: Learning, zxid: int, mode: int) -> None:
        original(learning, zxid, mode)
        committed.setdefault(learning, []).append(zxid)

    async def take_over(
        original: Callable[..., Any], learning: Learning, link: LearnerLink, mode: int, zxid: int
    ) -> None:
        """A leader's tree is to be saved first: what comes with that is left to the end, as with ours."""
        machine = machines.get(PROCESS.get())
        if machine is not None and machine.acks_early and not learning._is_observer and mode != SNAP:
            for _, payload in learning._proposed:
                learning._replica.log(payload)
            proposed = [zxid for zxid, _ in learning._proposed]
            logged[learning] = set(proposed)
            await learning._replica.log_drained()
            acks = committed.get(learning, []) + proposed
            await link.send_now(packets_without_data(ACK, acks))
            counts["acked_early"] += bool(acks)
            await trio.sleep(machine.random.uniform(0, _PAUSE_S_MAX))
        await original(learning, link, mode, zxid)

    def take_proposal(
        original: Callable[..., Any], learning: Learning, service: LearnerService, zxid: int, payload: bytes
    ) -> None:
        if zxid not in logged.get(learning, ()):
            original(learning, service, zxid, payload)
            return
        learning._see_config(payload)
        service.proposed(payload)
        learning._uncommitted.append((zxid, payload))

    with ExitStack() as stack:
        stack.enter_context(replaced(Learning, "_commit_now", commit_now))
        stack.enter_context(replaced(Learning, "_take_over", take_over))
        stack.enter_context(replaced(Learning, "_take_proposal", take_proposal))
        yield
