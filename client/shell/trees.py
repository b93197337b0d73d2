"""Parts of the tree as values: what differs between two of them, how one becomes the other, and JSON.

Paths are relative to the part: its own root is "/". What always holds in a plan: a node is created after its
parent and deleted before it, so it can be done from the first step to the last.

A copy is of what clients can see. Sequence counters are not, so they start again at what the copy's children
make them; only a snapshot keeps them.
"""

import enum
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from client.paths import InvalidPath, validate_path
from client.shell.acl_text import format_acl, parse_acl
from client.shell.output import data_of, data_values
from jute.client_records import Acl

FORMAT = "triokeeper-tree/1"
_SEQUENTIAL = re.compile(r"\d{10}\Z")


@attrs.frozen
class Node:
    """What is copied of a node. An ACL of None is not known, or of no interest."""

    data: bytes | None
    acl: tuple[Acl, ...] | None = None


class Kind(enum.Enum):
    """What a step does, and how it is written."""

    CREATE = "+"
    CHANGE = "~"
    DELETE = "-"


@attrs.frozen
class Step:
    """One change that brings the target closer to the source. A deletion has no node."""

    kind: Kind
    path: str
    node: Node | None = None
    changes_data: bool = True
    changes_acl: bool = False

    def __str__(self) -> str:
        return f"{self.kind.value} {self.path}"


def in_order(paths: Iterable[str]) -> list[str]:
    """Parents before children, siblings by name."""
    return sorted(paths, key=lambda path: path.split("/") if path != "/" else [""])


def plan(source: Mapping[str, Node], target: Mapping[str, Node], *, deletes: bool) -> list[Step]:
    """The steps that make the target hold what the source holds, and, if it deletes, nothing else."""
    steps = []
    for path in in_order(source):
        node, other = source[path], target.get(path)
        if other is None:
            steps.append(Step(Kind.CREATE, path, node))
            continue
        has_other_acl = node.acl is not None and other.acl is not None and set(node.acl) != set(other.acl)
        if node.data != other.data or has_other_acl:
            steps.append(Step(Kind.CHANGE, path, node, node.data != other.data, has_other_acl))
    if deletes:
        steps += [Step(Kind.DELETE, path) for path in reversed(in_order(target)) if path not in source]
    return steps


def in_levels(steps: Iterable[Step]) -> list[list[Step]]:
    """The steps that can be done at the same time, one list after the other."""
    levels: dict[tuple[int, int], list[Step]] = {}
    for step in steps:
        depth = 0 if step.path == "/" else step.path.count("/")
        is_deletion = step.kind is Kind.DELETE
        levels.setdefault((is_deletion, -depth if is_deletion else depth), []).append(step)
    return [levels[key] for key in sorted(levels)]


def has_sequential(paths: Iterable[str]) -> bool:
    """Whether one of the names looks as if a counter had made it."""
    return any(_SEQUENTIAL.search(path) for path in paths)


def to_json(tree: Mapping[str, Node]) -> str:
    """A file of it: one node a line, so that two files can be compared by any tool."""
    lines = []
    for path in in_order(tree):
        node = tree[path]
        values: dict[str, Any] = dict(data_values(node.data))
        if node.acl is not None:
            values["acl"] = format_acl(node.acl)
        lines.append(f"    {json.dumps(path)}: {json.dumps(values)}")
    return f'{{\n  "format": "{FORMAT}",\n  "nodes": {{\n' + ",\n".join(lines) + "\n  }\n}\n"


class InvalidTreeFile(ValueError):
    """A file that holds no tree."""


def from_json(text: str) -> dict[str, Node]:
    """What `to_json` wrote, or somebody by hand. Raises InvalidTreeFile."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InvalidTreeFile(f"no JSON: {problem}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidTreeFile(f'expected an object with "format": "{FORMAT}" and "nodes"')
    nodes = document.get("nodes")
    if not isinstance(nodes, dict):
        raise InvalidTreeFile('"nodes" is no object of paths')
    return {path: _node(path, values) for path, values in nodes.items()}


def _node(path: str, values: object) -> Node:
    try:
        validate_path(path)
        if not isinstance(values, dict):
            raise ValueError("expected an object")
        acl = values.get("acl")
        return Node(data_of(values), None if acl is None else parse_acl(",".join(acl)))
    except (InvalidPath, ValueError, TypeError) as problem:
        raise InvalidTreeFile(f"{path}: {problem}") from None


def missing_parents(tree: Mapping[str, Node]) -> list[str]:
    """Paths above its nodes that a tree does not hold itself."""
    above = {path[:at] or "/" for path in tree for at in range(len(path)) if path[at] == "/" and path != "/"}
    return in_order(above - set(tree))
