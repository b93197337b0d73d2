"""Whoever keeps the file that two servers ask when one of them is gone: may the other go on alone?

It knows what an operator can know. A machine that was down for a while is replaced by the other, if that one
was up to date when it went down, as the one that went down saw it. It says so to one machine at a time, and
does not take it back when the other returns.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from tests.sim.machines import Machine

ORACLE_FILE = Path("/conf/oracle")


class Oracle:
    """The first two machines are the voters."""

    def __init__(self, machines: list[Machine], trace: Callable[[str, str], None]) -> None:
        self._voters = machines[:2]
        self._trace = trace
        self._replaceable: Machine | None = None  # went down when the other had all that it had
        for machine in self._voters:
            machine.on_down = self._went_down
            machine.disk.put(ORACLE_FILE, b"0\n")

    def _other(self, machine: Machine) -> Machine:
        return self._voters[machine is self._voters[0]]

    def _went_down(self, machine: Machine) -> None:
        other = self._other(machine)
        is_replaceable = other.leads or (machine.leads and self._is_followed(machine, other))
        self._replaceable = machine if is_replaceable and other.is_up else None

    def _is_followed(self, machine: Machine, other: Machine) -> bool:
        """As the leader sees it: it keeps learners by connection or by server id."""
        if machine.member is None or machine.member.peer.leader is None:
            return False  # it stops by itself, and is no leader any more
        learners: Any = machine.member.peer.leader.learners
        each_one = learners.values() if isinstance(learners, dict) else learners
        return any(each.server_id == other.server_id and each.is_synced for each in each_one)

    async def decide(self, patience_s: float) -> None:
        while True:
            await trio.sleep(patience_s / 4)
            down = self._replaceable
            if down is None or down.is_up or trio.current_time() < down.down_since + patience_s:
                continue
            chosen, self._replaceable = self._other(down), None
            if chosen.is_up:
                self._trace("oracle", f"lets {chosen.name} go on alone")
                down.disk.put(ORACLE_FILE, b"0\n")
                chosen.disk.put(ORACLE_FILE, b"1\n")
