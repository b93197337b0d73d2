"""When Python looks for garbage, so that looking never holds the loop for long.

Almost everything here is freed by counting references. What is left for the collector is what refers to
itself in a circle: few and small things. But a full collection looks at every container there is, in 50 to
100 ns each, and Python starts one whenever their number has grown by a quarter: with 500,000 watched paths,
or amid a transaction of as many changes, all clients wait for 50 ms. So full collections are left to this
module, which is asked once in a tick:

    little has grown old       collect it; what is left is made permanent, so the next one need not look again
    much has grown old         watches, sessions, changes under way: make it permanent without a look
    now and then               look at the permanent too, unless there is too much of it

So garbage in circles among very many permanent things is kept. Connections leave none (`PlainFront._close`).
"""

import gc
from typing import Final

import trio

_EVERY_S: Final = 2.0
_YOUNG: Final = 5000  # containers more than were freed, until the youngest are looked at
_MIDDLE: Final = 10  # such looks, until those that survived them are looked at too
_NEVER: Final = 1_000_000
_MIDDLES_AFFORDED: Final = 3  # of 50,000 containers each: 15 ms
_PERMANENT_AFFORDED: Final = 200_000
_TURNS_UNTIL_ALL: Final = 150  # five minutes


class GarbageCollector:
    """Decides what to look at; the collector is that of the process."""

    def __init__(self) -> None:
        self._turns = 0

    def start(self) -> None:
        """Take over from Python: what is there now is permanent."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(_YOUNG, _MIDDLE, _NEVER)

    def turn(self) -> None:
        """See to what has grown old since the last turn."""
        self._turns += 1
        if self._turns >= _TURNS_UNTIL_ALL:
            self._turns = 0
            if gc.get_freeze_count() < _PERMANENT_AFFORDED and gc.get_count()[2] <= _MIDDLES_AFFORDED:
                gc.unfreeze()
                gc.collect()
                gc.freeze()
                return
        middles = gc.get_count()[2]
        if not middles:
            return
        if middles <= _MIDDLES_AFFORDED:
            gc.collect()
            gc.freeze()
        else:
            gc.freeze()
            gc.collect()  # of nothing: begins to count anew


async def collect_garbage() -> None:
    """Run for as long as the server does."""
    collector = GarbageCollector()
    collector.start()
    await trio.sleep(_EVERY_S)  # a server that has just been started has something better to do
    from server.freed_memory import FreedMemory

    freed = FreedMemory()
    while True:
        collector.turn()
        freed.turn()
        await trio.sleep(_EVERY_S)
