"""All that a client can see of a tree, for comparing before with after, or one server with another."""

from collections.abc import Iterator, Mapping

import attrs

from support import session_client as wire
from support.raw_client import Malformed, Reader
from support.session_client import Acl, Reply, SessionClient, Stat


@attrs.frozen
class Seen:
    """One node."""

    data: bytes | None
    stat: Stat
    acl: Acl
    children: frozenset[str]  # their order is the server's to choose


def read_tree(client: SessionClient, top: str = "/") -> dict[str, Seen]:
    """Every node at or below `top`. The client may read them all, and nobody writes meanwhile."""
    seen: dict[str, Seen] = {}
    level = [top]
    while level:
        requests = [
            request
            for path in level
            for request in (wire.get_data(path), wire.get_children(path), wire.get_acl(path))
        ]
        replies = client.call_all(requests)
        for path in level:
            seen[path] = _read_node(path, replies)
        level = [f"{path.rstrip('/')}/{child}" for path in level for child in sorted(seen[path].children)]
    return seen


def _read_node(path: str, replies: Iterator[Reply]) -> Seen:
    data_reply, children_reply, acl_reply = (Reader(next(replies).body) for _ in range(3))
    data, stat = data_reply.read_buffer(), wire.read_stat(data_reply)
    children, acl = frozenset(wire.read_names(children_reply)), wire.read_acl(acl_reply)
    if any(wire.read_stat(reply) != stat for reply in (children_reply, acl_reply)):
        raise Malformed(f"{path} has more than one Stat")
    if stat.children != len(children) or stat.data_length != len(data or b""):
        raise Malformed(f"{path} has {len(children)} children, {len(data or b'')} bytes and the Stat {stat}")
    return Seen(data, stat, acl, children)


def differences(before: Mapping[str, Seen], after: Mapping[str, Seen]) -> list[str]:
    """One line for each node and field that is not the same, shortened."""
    found = []
    for path in sorted(before.keys() | after.keys()):
        here, there = before.get(path), after.get(path)
        if here is None or there is None:
            found.append(
                f"{path}: {'only after' if here is None else 'only before'}: {(here or there)!s:.300}"
            )
        elif here != there:
            found += [f"{path}: {line}" for line in _field_differences(here, there)]
    return found


def _field_differences(here: Seen, there: Seen) -> Iterator[str]:
    for name in ("data", "acl", "children"):
        old, new = getattr(here, name), getattr(there, name)
        if old != new:
            yield f"{name} {old!s:.200} -> {new!s:.200}"
    for name, old in attrs.asdict(here.stat).items():
        if old != (new := getattr(there.stat, name)):
            yield f"{name} {old:#x} -> {new:#x}"
