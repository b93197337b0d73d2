"""The data of quota nodes: `count=5,bytes=-1=;byteHardLimit=-1;countHardLimit=-1`."""

import re
from typing import Self

import attrs

from client.zkcli.java_values import parse_long

QUOTA_ROOT = "/zookeeper/quota"
LIMIT_NODE = "zookeeper_limits"
STAT_NODE = "zookeeper_stats"
NO_LIMIT = -1


def quota_path(path: str) -> str:
    return QUOTA_ROOT + path


def limit_path(path: str) -> str:
    return f"{QUOTA_ROOT}{path}/{LIMIT_NODE}"


def stat_path(path: str) -> str:
    return f"{QUOTA_ROOT}{path}/{STAT_NODE}"


@attrs.define
class Figures:
    """Limits or use: numbers by their names. -1 is no limit."""

    numbers: dict[str, int] = attrs.field(factory=dict)

    @classmethod
    def parse(cls, data: bytes | None) -> Self:
        """Raise JavaException if a number is none."""
        figures = cls()
        for pair in re.split("[,;]+", (data or b"").decode(errors="replace")):
            if pair:
                name, _, value = pair.partition("=")
                figures.numbers[name] = parse_long(value.rstrip("=") or "-1")
        return figures

    def __getitem__(self, name: str) -> int:
        return self.numbers.get(name, NO_LIMIT)

    def __str__(self) -> str:
        """Count and bytes first; the `=` makes old versions ignore what follows."""
        others = sorted(name for name in self.numbers if name not in ("count", "bytes"))
        text = f"count={self['count']},bytes={self['bytes']}"
        return text + "=" * bool(others) + "".join(f";{name}={self.numbers[name]}" for name in others)

    def encode(self) -> bytes:
        return str(self).encode()


def warnings_about(limits: Figures, use: Figures) -> list[str]:
    """What is said about limits that are exceeded from the start."""
    return [
        f"[Warning]: the {name} quota you create is less than the existing {name}:{use[name]}"
        for name, hard in (("count", "countHardLimit"), ("bytes", "byteHardLimit"))
        if NO_LIMIT < limits[name] < use[name] or NO_LIMIT < limits[hard] < use[name]
    ]
