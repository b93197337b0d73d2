"""Copies of parts of the tree: plans that work, and files that can be read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.paths import parent_of
from client.shell.acl_text import InvalidAclText, format_acl, parse_acl
from client.shell.output import data_of, data_values, stat_values, time_text
from client.shell.places import FilePlace, NodePlace, parse_place
from client.shell.trees import (
    InvalidTreeFile,
    Kind,
    Node,
    from_json,
    has_sequential,
    in_levels,
    in_order,
    missing_parents,
    plan,
    to_json,
)
from jute.client_records import Acl, Id, Stat

names = st.sampled_from(["a", "b", "c-", "é"])
paths = st.lists(names, max_size=4).map(lambda parts: "/" + "/".join(parts))
acls = st.none() | st.just((Acl(31, Id("world", "anyone")),)) | st.just((Acl(1, Id("digest", "u:h=")),))
nodes = st.builds(Node, st.none() | st.binary(max_size=4), acls)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Node]:
    """Whole trees: each node's parent is there."""
    tree: dict[str, Node] = {}
    for path in draw(st.lists(paths, max_size=6)):
        while path not in tree:
            tree[path] = draw(nodes)
            path = parent_of(path)
    return tree


@given(trees(), trees(), st.booleans())
def test_a_plan_leads_to_the_source(source: dict[str, Node], target: dict[str, Node], deletes: bool) -> None:
    """Step by step, with parents before their children, and levels at a time in any order."""
    steps = plan(source, target, deletes=deletes)
    by_level = [step for level in in_levels(steps) for step in reversed(level)]
    for order in (steps, by_level):
        done = dict(target)
        for step in order:
            if step.kind is Kind.DELETE:
                assert not any(parent_of(path) == step.path for path in done if path != "/")
                del done[step.path]
                continue
            assert step.node is not None
            if step.kind is Kind.CREATE:
                assert step.path not in done
                assert step.path == "/" or parent_of(step.path) in done
                done[step.path] = step.node
            else:
                assert step.changes_data or step.changes_acl
                data = step.node.data if step.changes_data else done[step.path].data
                acl = step.node.acl if step.changes_acl else done[step.path].acl
                done[step.path] = Node(data, acl)
        assert {path: node.data for path, node in done.items() if path in source or deletes} == {
            path: node.data for path, node in source.items()
        }
        assert plan(source, done, deletes=deletes) == []


@given(trees())
def test_a_file_holds_a_tree(tree: dict[str, Node]) -> None:
    assert from_json(to_json(tree)) == tree


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "no JSON"),
        ("[]", "expected an object"),
        ('{"format": "other", "nodes": {}}', "triokeeper-tree/1"),
        ('{"format": "triokeeper-tree/1", "nodes": []}', "is no object of paths"),
        ('{"format": "triokeeper-tree/1", "nodes": {"x": {}}}', "x: Path must start with /"),
        ('{"format": "triokeeper-tree/1", "nodes": {"/x": 5}}', "/x: expected an object"),
        ('{"format": "triokeeper-tree/1", "nodes": {"/x": {"data": 5}}}', "/x: 5 is no text"),
        ('{"format": "triokeeper-tree/1", "nodes": {"/x": {"base64": "?"}}}', "/x: "),
        ('{"format": "triokeeper-tree/1", "nodes": {"/x": {"acl": [5]}}}', "/x: "),
        ('{"format": "triokeeper-tree/1", "nodes": {"/x": {"acl": ["world"]}}}', "/x: 'world' is no ACL"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(text: str, words: str) -> None:
    with pytest.raises(InvalidTreeFile, match=words):
        from_json(text)


def test_parents_that_a_file_leaves_out() -> None:
    tree = from_json('{"format": "triokeeper-tree/1", "nodes": {"/a/b/c": {}, "/a": {}}}')
    assert missing_parents(tree) == ["/", "/a/b"]
    assert tree["/a/b/c"] == Node(None)


def test_order() -> None:
    assert in_order(["/b", "/a-", "/a/c", "/a", "/"]) == ["/", "/a", "/a/c", "/a-", "/b"]


def test_sequential_names() -> None:
    assert has_sequential(["/", "/a/lock-0000000001"])
    assert not has_sequential(["/", "/a1"])


def test_acls_read_as_they_are_written() -> None:
    text = "world:anyone:r,digest:user:hash=:cdrwa,ip:::1:rw"
    assert format_acl(parse_acl(text)) == text.split(",")
    assert parse_acl("auth::wr") == (Acl(3, Id("auth", "")),)


@pytest.mark.parametrize("text", ["", "world", "world:anyone", ":x:r", "world:anyone:x"])
def test_a_text_that_is_no_acl(text: str) -> None:
    with pytest.raises(InvalidAclText):
        parse_acl(text)


@given(st.none() | st.binary(max_size=8))
def test_data_as_json_and_back(data: bytes | None) -> None:
    assert data_of(dict(data_values(data))) == data


def test_stats_are_readable() -> None:
    values = stat_values(Stat(10, 11, 0, 1_700_000_000_123, 1, 2, 3, -1, 5, 6, 12))
    assert values["czxid"] == "0xa"
    assert values["mtime"] == "2023-11-14T22:13:20.123Z"
    assert values["ephemeral_owner"] == "0xffffffffffffffff"
    assert time_text(2**62) == str(2**62)


def test_places() -> None:
    assert parse_place("/a/b") == NodePlace("/a/b")
    for text in ("-", "app.json", "./app"):
        assert parse_place(text) == FilePlace(text)
    assert parse_place("file:/tmp/x") == FilePlace("/tmp/x")
    place = parse_place("zk://h1:1,h2/a/b")
    assert isinstance(place, NodePlace)
    assert (place.path, place.servers and place.servers.hosts) == ("/a/b", (("h1", 1), ("h2", 2181)))
    assert str(parse_place("zk://h1:1")) == "zk://h1:1/"
