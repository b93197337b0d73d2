"""A network in memory for a few servers: hosts are names, connections memory streams.

A dial to where nobody listens is refused; a dial to a `silent` host gets no answer at all.
"""

import errno
import math
from collections.abc import Collection, Sequence

import attrs
import trio
from trio.testing import memory_stream_pair

Address = tuple[str, int]


@attrs.define
class MemoryNetwork:
    """Meets quorum.network.Network. `dials` tells who was dialled, in order, answered or not.

    `caller` is the host that dials from now on; while it is not set, everybody is where it should be."""

    silent: set[str] = attrs.field(factory=set)
    dials: list[Address] = attrs.field(factory=list)
    listeners: dict[Address, "MemoryListener"] = attrs.field(factory=dict)
    caller: str | None = None
    callers: dict[trio.abc.Stream, str | None] = attrs.field(factory=dict)  # by the end they reach

    async def listen(self, host: str | None, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        await trio.lowlevel.checkpoint()
        address = (host or "any", port)
        if address in self.listeners:
            raise OSError(errno.EADDRINUSE, "address already in use")
        self.listeners[address] = MemoryListener(self, address)
        return [self.listeners[address]]

    async def dial(self, host: str, port: int) -> trio.abc.Stream:
        self.dials.append((host, port))
        await trio.lowlevel.checkpoint()
        if host in self.silent:
            await trio.sleep_forever()
        listener = self.listeners.get((host, port))
        if listener is None:
            raise OSError(errno.ECONNREFUSED, "connection refused")
        here, there = memory_stream_pair()
        self.callers[there] = self.caller
        listener.arrived.send_nowait(there)
        return here

    async def is_at(self, stream: trio.abc.Stream, hosts: Collection[str]) -> bool:
        await trio.lowlevel.checkpoint()
        caller = self.callers.get(stream)
        return caller is None or caller in hosts


class MemoryListener(trio.abc.Listener[trio.abc.Stream]):
    def __init__(self, network: MemoryNetwork, address: Address) -> None:
        self._network = network
        self._address = address
        self.arrived, self._arrivals = trio.open_memory_channel[trio.abc.Stream](math.inf)

    async def accept(self) -> trio.abc.Stream:
        return await self._arrivals.receive()

    async def aclose(self) -> None:
        self._network.listeners.pop(self._address, None)
        self.arrived.close()
        self._arrivals.close()
        await trio.lowlevel.checkpoint()
