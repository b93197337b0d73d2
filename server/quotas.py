"""Quotas: limits that clients write below /zookeeper/quota, usage that the server writes beside them.

The quota of /p/q lives in /zookeeper/quota/p/q: its child zookeeper_limits (a client's text) switches it on,
its child zookeeper_stats (our text) shows the usage of the subtree. A change counts for the nearest quota
above it only. Usage is recomputed whenever statistics appear or cannot be read, so junk written there by a
client is overwritten by the truth instead of stopping the server as it does the original.
"""

import re
from collections import Counter
from typing import TYPE_CHECKING

from jute.errors import MarshallingError, QuotaExceeded
from server.paths import QUOTA, ROOT, ancestors_or_self, is_at_or_above, parent_of

if TYPE_CHECKING:
    from server.data_tree import DataTree

_LONG_PATH_BYTES = 512
LIMITS = b"zookeeper_limits"
STATS = b"zookeeper_stats"
_TEXT_BYTES_MAX = 4096  # every write below a quota reads its texts, which take 100 bytes
_NULL = b"\xff\xff\xff\xff"  # data that is not even empty

# What Java's split at = makes of it: the second part counts, and is empty only where there is a third.
_PAIR = re.compile(r"([^=]*)=(?:([+-]?\d{1,100})(?:=.*)?|=+[^=].*)", re.DOTALL)
_LONGS = range(-(1 << 63), 1 << 63)


def parse_limits(text: bytes) -> dict[str, int]:
    """The numbers of a limits or statistics text; -1 stands for "no limit". ValueError if it is none."""
    numbers = {}
    pairs = text.decode("utf-8", "replace").rstrip(",;")
    for pair in re.split("[,;]+", pairs) if pairs else ():
        match = _PAIR.fullmatch(pair)
        if match is None or (number := int(match[2] or "-1")) not in _LONGS:
            raise ValueError(f"{pair!r} is not of the form name=number")
        numbers[match[1]] = number
    return numbers


def format_usage(nodes: int, data_bytes: int, others: dict[str, int] | None = None) -> bytes:
    """A statistics text. Other numbers that were there stay, behind an = that hides them from old parsers."""
    text = f"count={nodes},bytes={data_bytes}"
    if others:
        text += "=" + "".join(f";{name}={number}" for name, number in sorted(others.items()))
    return text.encode()


class Quotas:
    """Which paths have a quota, and the upkeep of their statistics."""

    def __init__(self) -> None:
        self.paths: set[bytes] = set()
        self.refusals: Counter[bytes] = Counter()  # by namespace: the child of the root that the quota is in

    def clear(self) -> None:
        self.paths.clear()

    def nearest(self, path: bytes) -> bytes | None:
        """The longest path at or above this one that has a quota."""
        if not self.paths:
            return None
        if len(path) > _LONG_PATH_BYTES and len(self.paths) <= path.count(b"/"):  # there are more nodes above
            above = (quota for quota in self.paths if is_at_or_above(quota, path))
            return max(above, key=len, default=None)
        return next((above for above in ancestors_or_self(path) if above in self.paths), None)

    def changed(self, tree: "DataTree", path: bytes, bytes_more: int, nodes_more: int) -> None:
        """A node was created (nodes_more 1), deleted (-1) or rewritten (0)."""
        if nodes_more and path.startswith(QUOTA + b"/"):
            self._quota_node_changed(tree, path, nodes_more)
        quota = self.nearest(path)
        if quota is not None:
            self._add_usage(tree, quota, bytes_more, nodes_more)

    def _quota_node_changed(self, tree: "DataTree", path: bytes, nodes_more: int) -> None:
        parent, name = parent_of(path), path[path.rindex(b"/") + 1 :]
        subject = parent[len(QUOTA) :]
        if name == LIMITS and subject:  # without a subject they would be the root's, which has none
            (self.paths.add if nodes_more > 0 else self.paths.discard)(subject)
        elif name == STATS and nodes_more > 0:
            self._recompute(tree, subject)

    def _add_usage(self, tree: "DataTree", quota: bytes, bytes_more: int, nodes_more: int) -> None:
        stats_path = QUOTA + quota + b"/" + STATS
        body = tree.bodies.get(stats_path)
        if body is None:
            return
        try:
            usage = numbers_in(body)
        except ValueError:
            self._recompute(tree, quota)
            return
        nodes = usage.pop("count", -1) + nodes_more
        data_bytes = usage.pop("bytes", -1) + bytes_more
        tree.replace_unversioned(stats_path, _buffer(format_usage(nodes, data_bytes, usage)))

    def _recompute(self, tree: "DataTree", quota: bytes) -> None:
        stats_path = QUOTA + quota + b"/" + STATS
        if stats_path in tree.bodies:
            tree.replace_unversioned(stats_path, _buffer(format_usage(*tree.usage_of(quota or ROOT))))

    def rebuild(self, tree: "DataTree") -> None:
        """After a snapshot was loaded: find the quotas and count their subtrees anew."""
        self.clear()
        suffix = b"/" + LIMITS
        todo = [QUOTA] if QUOTA in tree.bodies else []
        while todo:
            path = todo.pop()
            todo += tree.children.get(path, ())
            if path.endswith(suffix) and not tree.children.get(path):
                subject = path[len(QUOTA) : -len(suffix)]
                if subject and subject != ROOT:
                    self.paths.add(subject)
                    self._recompute(tree, subject)

    def check(self, tree: "DataTree", path: bytes, bytes_more: int, nodes_more: int) -> None:
        """Raise QuotaExceeded if a hard limit would be passed. Soft limits stop nobody."""
        quota = self.nearest(path)
        if quota is None:
            return
        limits_body = tree.bodies.get(QUOTA + quota + b"/" + LIMITS)
        if limits_body is None:
            return
        limits = _limits_in(limits_body)
        usage_body = tree.bodies.get(QUOTA + quota + b"/" + STATS)
        if usage_body is None:
            return
        usage = self._usage_in(usage_body, tree, quota)
        if nodes_more and 0 <= limits.get("countHardLimit", -1) < usage.get("count", -1) + nodes_more:
            raise self._refusal(quota)
        if bytes_more and 0 <= limits.get("byteHardLimit", -1) < usage.get("bytes", -1) + bytes_more:
            raise self._refusal(quota)

    def _refusal(self, quota: bytes) -> QuotaExceeded:
        self.refusals[quota.split(b"/", 2)[1]] += 1
        return QuotaExceeded()

    def _usage_in(self, stats_body: bytes, tree: "DataTree", quota: bytes) -> dict[str, int]:
        """What the statistics say; if they cannot be read, what they will be corrected to."""
        try:
            return numbers_in(stats_body)
        except ValueError:
            return dict(zip(("count", "bytes"), tree.usage_of(quota), strict=True))


def _limits_in(limits_body: bytes) -> dict[str, int]:
    """What the limits say; where they cannot be read nobody can know what would exceed them."""
    try:
        return numbers_in(limits_body)
    except ValueError as failure:
        raise MarshallingError(str(failure)) from None


def numbers_in(body: bytes) -> dict[str, int]:
    """What the data of a node says; ValueError if it is none, not even empty, or too long to be looked at."""
    if body.startswith(_NULL):
        raise ValueError("there are no numbers in null")
    if len(body) > _TEXT_BYTES_MAX + 72:
        raise ValueError(f"the text of a quota has at most {_TEXT_BYTES_MAX} bytes")
    return parse_limits(body[4:-68])


def _buffer(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data
