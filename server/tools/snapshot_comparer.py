"""zkSnapshotComparer.sh: which nodes two snapshots do not share, and how sizes differ, level by level."""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import attrs

from jute.java_text import parse_java_int
from server.tools.java_options import Option, OptionError, parse, usage
from server.tools.snapshot_tree import NotLoaded, SnapshotTree, load, refuse

SYNOPSIS = "java -cp <classPath> org.apache.zookeeper.server.SnapshotComparer"
OPTIONS = [
    Option("l", "left", "(Required) One snapshot.", value="LEFT", is_required=True),
    Option("r", "right", "(Required) The other snapshot.", value="RIGHT", is_required=True),
    Option(
        "b",
        "bytes",
        "(Required) Print nodes whose data differs by more bytes than this.",
        value="BYTETHRESHOLD",
        is_required=True,
    ),
    Option(
        "n",
        "nodes",
        "(Required) Print nodes whose number of descendants differs by more than this.",
        value="NODETHRESHOLD",
        is_required=True,
    ),
    Option("d", "debug", "Print every comparison."),
    Option("i", "interactive", "Ask which level or node to print next."),
]
EXIT_INVALID = 2
PROMPT = """\
- Press enter to move to print current depth layer;
- Type a number to jump to and print all nodes at a given depth;
- Enter an ABSOLUTE path to print the immediate subtree of a node. Path must start with '/'."""


def main(arguments: Sequence[str], _environ: Mapping[str, str]) -> int:
    """Run zkSnapshotComparer.sh with these arguments."""
    try:
        options = parse(arguments, OPTIONS).options
    except OptionError as problem:
        refuse(problem)
        print(usage(SYNOPSIS, OPTIONS))
        return EXIT_INVALID
    bytes_max, nodes_max = (parse_java_int(options[letter]) for letter in "bn")
    if bytes_max is None or nodes_max is None:
        return refuse(f"-b {options['b']} -n {options['n']}: both must be whole numbers")
    print("Successfully parsed options!")
    try:
        left, right = (measure(Path(options[letter])) for letter in "lr")
    except NotLoaded as reason:
        return refuse(reason)
    print(left.description)
    print(right.description)
    comparison = Comparison(
        left, right, bytes_max, nodes_max, is_debug="d" in options, is_interactive="i" in options
    )
    if "i" not in options:
        comparison.print_all_levels()
    elif not comparison.converse(sys.stdin):
        return refuse("The input ended before all levels were compared")
    print("All layers compared.")
    return 0


@attrs.define
class Size:
    """A node with everything below it; `label` is its path, and nothing for the root."""

    label: str
    data_bytes: int
    descendants: int = 0
    children: "list[Size]" = attrs.field(factory=list)


@attrs.frozen
class SizedTree:
    """All nodes of a snapshot with their sizes, by level (0 is the root) and by path."""

    levels: list[list[Size]]
    by_label: dict[str, Size]

    @property
    def description(self) -> str:
        counts = [f"Count of nodes at depth {depth}: {len(level)}" for depth, level in enumerate(self.levels)]
        heads = [
            f"Node count: {len(self.by_label)}",
            f"Total size: {self.by_label[''].data_bytes}",
            f"Max depth: {len(self.levels)}",
        ]
        return "\n".join([*heads, *counts, ""])

    def level(self, depth: int) -> list[Size]:
        return self.levels[depth] if depth < len(self.levels) else []


def measure(file: Path) -> SizedTree:
    """Load a snapshot and count, saying how long each took."""
    began = time.perf_counter()
    snapshot = load(file)
    loaded = time.perf_counter()
    print(f"Deserialized snapshot in {file.name} in {loaded - began:f} seconds")
    tree = sized(snapshot)
    print(f"Processed data tree in {time.perf_counter() - loaded:f} seconds")
    return tree


def sized(snapshot: SnapshotTree) -> SizedTree:
    root = Size("", snapshot.data_length("/"))
    levels, by_label = [[root]], {"": root}
    while levels[-1]:
        level = []
        for parent in levels[-1]:
            for name in snapshot.children(parent.label or "/"):
                label = f"{parent.label}/{name}"
                child = by_label[label] = Size(label, snapshot.data_length(label))
                parent.children.append(child)
                level.append(child)
        levels.append(level)
    levels.pop()
    for level in reversed(levels):
        for node in level:
            node.data_bytes += sum(child.data_bytes for child in node.children)
            node.descendants = sum(child.descendants + 1 for child in node.children)
    return SizedTree(levels, by_label)


@attrs.frozen
class Comparison:
    """Two trees, how much of a difference is worth a line, and whether smaller ones are mentioned too."""

    left: SizedTree
    right: SizedTree
    bytes_max: int
    nodes_max: int
    is_debug: bool = attrs.field(kw_only=True)
    is_interactive: bool = attrs.field(kw_only=True)

    @property
    def depth(self) -> int:
        return max(len(self.left.levels), len(self.right.levels))

    def print_all_levels(self) -> None:
        self._print_thresholds()
        for depth in range(self.depth):
            self._print_level(depth)

    def converse(self, answers: TextIO) -> bool:
        """Print what is asked for until all levels have been seen; False if the input ends before."""
        depth = 0
        while depth < self.depth:
            print(f"Current depth is {depth}")
            print(PROMPT, flush=True)
            line = answers.readline()
            if not line:
                return False
            self._print_thresholds()
            answer = line.rstrip("\r\n")
            if not answer:
                self._print_level(depth)
                depth += 1
            elif answer.startswith("/"):
                self._print_children(answer)
            elif (chosen := parse_java_int(answer)) is None:
                print(
                    f"Input {answer} is not valid. Depth must be in range [0, {self.depth - 1}]. "
                    "Path must be an absolute path which starts with '/'."
                )
            elif 0 <= chosen < self.depth:
                depth = chosen
                self._print_level(depth)
            else:
                print(f"Depth must be in range [0, {self.depth - 1}]")
                continue
            print()
        return True

    def _print_thresholds(self) -> None:
        print(
            f"Printing analysis for nodes difference larger than {self.bytes_max} bytes "
            f"or node count difference larger than {self.nodes_max}."
        )

    def _print_level(self, depth: int) -> None:
        print(f"Analysis for depth {depth}")
        self._print(self.lines(self.left.level(depth), self.right.level(depth)))

    def _print_children(self, label: str) -> None:
        print(f"Analysis for node {label}")
        left, right = self.left.by_label.get(label), self.right.by_label.get(label)
        if left is None and right is None:
            print(f"Path {label} is neither found in left tree nor right tree.")
            return
        self._print(self.lines(left.children if left else [], right.children if right else []))

    def _print(self, lines: Iterable[str]) -> None:
        for line in lines:
            print(line)

    def lines(self, left: Sequence[Size], right: Sequence[Size]) -> Iterator[str]:
        """What there is to say about two lists of nodes, in the order of their labels."""
        lefts = sorted(left, key=_java_order, reverse=True)
        rights = sorted(right, key=_java_order, reverse=True)
        while lefts and rights:
            ours, theirs = _java_order(lefts[-1]), _java_order(rights[-1])
            if self.is_debug:
                yield f"Comparing {lefts[-1].label} to {rights[-1].label}"
                yield "same" if ours == theirs else "left is less" if ours < theirs else "right is less"
            if ours == theirs:
                yield from self._both(lefts.pop(), rights.pop())
            elif ours < theirs:
                yield from self._only("left", lefts.pop())
            else:
                yield from self._only("right", rights.pop())
        for node in reversed(lefts):
            yield from self._only("left", node)
        for node in reversed(rights):
            yield from self._only("right", node)

    def _only(self, side: str, node: Size) -> Iterator[str]:
        if node.data_bytes > self.bytes_max or node.descendants > self.nodes_max:
            yield (
                f"Node {node.label} found only in {side} tree. "
                f"Descendant size: {node.data_bytes}. Descendant count: {node.descendants}"
            )
        elif self.is_debug or self.is_interactive:
            yield f"Filtered {side} node {node.label} of size {node.data_bytes}"

    def _both(self, left: Size, right: Size) -> Iterator[str]:
        more_bytes = right.data_bytes - left.data_bytes
        more_nodes = right.descendants - left.descendants
        if abs(more_bytes) > self.bytes_max or abs(more_nodes) > self.nodes_max:
            yield (
                f"Node {left.label} found in both trees. Delta: {more_bytes} bytes, {more_nodes} descendants"
            )
        elif self.is_debug or self.is_interactive:
            sizes = f"left size {left.data_bytes}, right size {right.data_bytes}"
            yield f"Filtered node {left.label} of {sizes}"


def _java_order(node: Size) -> bytes:
    """Java compares strings by their 16-bit units."""
    return node.label.encode("utf-16-be", "surrogatepass")
