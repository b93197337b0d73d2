"""Small snapshots, written for tests."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from jute.client_records import StatPersisted
from jute.record import encode
from persistence.snapshot_format import Acl, Node, Session, file_chunks

ALWAYS = {"/": b"", "/zookeeper": b"", "/zookeeper/quota": b"", "/zookeeper/config": b""}
TIME_MS = 1_794_784_808_000


@attrs.frozen
class Source:
    """A persistence.snapshots.SnapshotSource: nodes by path with their data; owners by path."""

    nodes: Mapping[str, bytes | None]
    sessions: Mapping[int, int]
    owners: Mapping[str, int]
    time_ms: int

    def last_zxid(self) -> int:
        return 0x20

    def snapshot_sessions(self) -> list[Session]:
        return list(self.sessions.items())

    def snapshot_acls(self) -> list[Acl]:
        return []

    def snapshot_nodes(self) -> Iterator[Node]:
        for number, (path, data) in enumerate(self.nodes.items()):
            stat = StatPersisted(
                number, number, self.time_ms, self.time_ms, 1, 2, 3, self.owners.get(path, 0), number
            )
            wire = b"\xff" * 4 if data is None else len(data).to_bytes(4, "big") + data
            yield path.encode(), wire, -1, encode(stat)

    def snapshot_digest(self) -> tuple[int, int]:
        return 0, 0


def write_snapshot(
    file: Path,
    nodes: Mapping[str, bytes | None],
    sessions: Mapping[int, int] | None = None,
    owners: Mapping[str, int] | None = None,
    time_ms: int = TIME_MS,
) -> Path:
    """A snapshot of these nodes, beside those that are always there."""
    source = Source({**ALWAYS, **nodes}, sessions or {}, owners or {}, time_ms)
    file.write_bytes(b"".join(file_chunks(source, with_digest=True, with_last_zxid=True)))
    return file
