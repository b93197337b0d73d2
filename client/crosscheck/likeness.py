"""Whether two servers said the same: zxids, times and session ids may differ, but must differ consistently.

A zxid of the first server stands for one zxid of the second, and the other way round. The pair is known from
the write that took both, or from the first time they stood in the same place: nodes that were there before.
"""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Final

import attrs

from client.crosscheck.answers import Field
from jute.client_records import ClientInfo

PAIRS_MAX: Final = 500_000  # the oldest are forgotten, and learnt again when they are seen
THEMSELVES: Final = (0, -1)  # mean no transaction and no session
MISSING: Final = Field("value", "missing")


@attrs.frozen
class Difference:
    """A field that is not the same."""

    field: str
    first: object
    second: object


@attrs.define
class Pairs:
    """Numbers of the first server and the numbers of the second that mean the same."""

    _second: dict[int, int] = attrs.field(factory=dict)
    _first: dict[int, int] = attrs.field(factory=dict)

    def learn(self, first: int, second: int) -> None:
        self._second[first] = second
        self._first[second] = first
        if len(self._second) > PAIRS_MAX:
            oldest = next(iter(self._second))
            self._first.pop(self._second.pop(oldest), None)

    def are_alike(self, first: int, second: int) -> bool:
        """Whether the two may mean the same; 0 and -1 mean themselves."""
        if first in THEMSELVES or second in THEMSELVES:
            return first == second
        return self._second.get(first, second) == second and self._first.get(second, first) == first

    def second_of(self, first: int) -> int | None:
        return self._second.get(first)


@attrs.define
class Likeness:
    """What is known about how the two servers number things."""

    zxids: Pairs = attrs.field(factory=Pairs)
    sessions: Pairs = attrs.field(factory=Pairs)
    _written: list[tuple[int, int]] = attrs.field(factory=list)  # zxids of writes, ascending

    def learn_write(self, first: int, second: int) -> None:
        """Both servers did the same write, under these zxids."""
        self.zxids.learn(first, second)
        if not self._written or self._written[-1][0] < first:
            self._written.append((first, second))
            if len(self._written) > PAIRS_MAX:
                del self._written[: PAIRS_MAX // 2]

    def second_zxid(self, first: int) -> int:
        """The zxid at the second server by which all had happened that the first had done by this one."""
        at = bisect_right(self._written, (first, 2**63))
        return self._written[at - 1][1] if at else 0

    def compare(self, first: Mapping[str, Field], second: Mapping[str, Field]) -> list[Difference]:
        """The fields that differ. If none does, the numbers in them are known to be pairs from now on."""
        names = list(dict.fromkeys([*first, *second]))
        differences = [
            Difference(name, one.value, other.value)
            for name in names
            if not self._is_alike(one := first.get(name, MISSING), other := second.get(name, MISSING))
        ]
        if not differences:
            self._learn(first, second)
        return differences

    def _is_alike(self, one: Field, other: Field) -> bool:
        first, second = one.value, other.value
        if isinstance(first, int) and isinstance(second, int):
            if one.kind == "zxid":
                return self.zxids.are_alike(first, second)
            if one.kind == "session":
                return self.sessions.are_alike(first, second)
            if one.kind == "time":
                return (first == 0) == (second == 0)
        if one.kind == "names" and isinstance(first, tuple) and isinstance(second, tuple):
            return sorted(map(_name, first)) == sorted(map(_name, second))
        return first == second

    def _learn(self, first: Mapping[str, Field], second: Mapping[str, Field]) -> None:
        pairs = {"zxid": self.zxids, "session": self.sessions}
        for name, one in first.items():
            other = second[name].value
            if one.kind not in pairs or not isinstance(one.value, int) or not isinstance(other, int):
                continue
            if one.value not in THEMSELVES:
                pairs[one.kind].learn(one.value, other)


def _name(item: object) -> str:
    """An item of a list in no order. Servers on different machines see a client at different addresses."""
    if isinstance(item, ClientInfo) and item.auth_scheme == "ip":
        return "ip"
    return repr(item)
