"""The texts of quotas, and which quota a path belongs to."""

import pytest

from server.data_tree import DataTree
from server.quotas import Quotas, format_usage, parse_limits

EMPTY = b"\0\0\0\0"
OPEN = DataTree().acl_of(b"/")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (b"", {}),
        (b",;,", {}),
        (b"count=5,bytes=100", {"count": 5, "bytes": 100}),
        (
            b"count=5,bytes=7=;byteHardLimit=9;countHardLimit=-1",
            {"count": 5, "bytes": 7, "byteHardLimit": 9, "countHardLimit": -1},
        ),
        (b"count=+5;;,bytes=-007", {"count": 5, "bytes": -7}),
        (b"count==5", {"count": -1}),
        (b"count=5=6=7", {"count": 5}),
        (b"=3", {"": 3}),
        (b"other=1,other=2", {"other": 2}),
    ],
)
def test_numbers_in_a_text(text: bytes, numbers: dict[str, int]) -> None:
    """Separated by commas or semicolons, as many as there are; behind a second = anything goes."""
    assert parse_limits(text) == numbers


@pytest.mark.parametrize(
    "text",
    [
        b"junk",
        b"count=",
        b"count==",
        b",count=1",
        b"count=1_0",
        b"count= 1",
        b"count=x",
        b"count=1x",
        b"count=" + b"9" * 5000,
    ],
)
def test_what_has_no_numbers(text: bytes) -> None:
    """Whatever Java's parser would stumble over."""
    with pytest.raises(ValueError, match="not of the form"):
        parse_limits(text)


def test_usage_keeps_other_numbers() -> None:
    """Sorted, behind an = that hides them from old parsers; and it reads as what it was."""
    text = format_usage(3, 4, {"z": 1, "a": -2})
    assert text == b"count=3,bytes=4=;a=-2;z=1"
    assert parse_limits(text) == {"count": 3, "bytes": 4, "a": -2, "z": 1}
    assert format_usage(3, 4) == b"count=3,bytes=4"


@pytest.mark.parametrize(
    ("path", "quota"),
    [
        (b"/a", b"/a"),
        (b"/a/b", b"/a/b"),
        (b"/a/b/c", b"/a/b"),
        (b"/a/bc", b"/a"),
        (b"/b", None),
        (b"/", None),
        (b"/ab", None),
    ],
)
def test_the_nearest_quota(path: bytes, quota: bytes | None) -> None:
    """By whole components."""
    quotas = Quotas()
    quotas.paths |= {b"/a", b"/a/b"}
    assert quotas.nearest(path) == quota
    assert Quotas().nearest(path) is None


def test_a_quota_on_what_holds_the_quotas() -> None:
    """Writing a statistic is no change that counts, so nothing goes round in circles; but the statistics
    themselves are counted twice when they are created, as in the original."""
    tree = DataTree()
    base = b"/zookeeper/quota/zookeeper"
    for path in (base, base + b"/zookeeper_limits", base + b"/zookeeper_stats"):
        tree.create(path, EMPTY, OPEN, 0, -1, 1, 1)
    assert tree.quotas.paths == {b"/zookeeper"}
    assert tree.bodies[base + b"/zookeeper_stats"][4:-68] == b"count=7,bytes=0"
    tree.set_data(base, b"\0\0\0\3abc", 1, 2, 1)
    assert tree.bodies[base + b"/zookeeper_stats"][4:-68] == b"count=7,bytes=3"


def test_deleting_the_limits_ends_the_quota_and_nothing_else() -> None:
    """Also while another quota is above."""
    tree = DataTree()
    for path in (b"/q", b"/q/r", b"/zookeeper/quota/q", b"/zookeeper/quota/q/r"):
        tree.create(path, EMPTY, OPEN, 0, -1, 1, 1)
    for subject in (b"/q", b"/q/r"):
        tree.create(b"/zookeeper/quota" + subject + b"/zookeeper_limits", EMPTY, OPEN, 0, -1, 1, 1)
        tree.create(b"/zookeeper/quota" + subject + b"/zookeeper_stats", EMPTY, OPEN, 0, -1, 1, 1)
    tree.delete(b"/zookeeper/quota/q/r/zookeeper_limits", 2)
    assert tree.quotas.paths == {b"/q"}
    tree.create(b"/q/r/s", b"\0\0\0\5xxxxx", OPEN, 0, -1, 3, 1)
    assert tree.bodies[b"/zookeeper/quota/q/zookeeper_stats"][4:-68] == b"count=3,bytes=5"
    assert tree.bodies[b"/zookeeper/quota/q/r/zookeeper_stats"][4:-68] == b"count=1,bytes=0"
    tree.delete(b"/zookeeper/quota/q/zookeeper_limits", 4)
    assert tree.quotas.paths == set()


def test_a_text_too_long_for_a_quota_is_replaced_by_the_truth() -> None:
    """Every write below the quota reads it; one that is as long as allowed is kept."""
    tree = DataTree()
    base = b"/zookeeper/quota/q"
    for path in (b"/q", base, base + b"/zookeeper_limits", base + b"/zookeeper_stats"):
        tree.create(path, EMPTY, OPEN, 0, -1, 1, 1)
    for length, kept in ((4096, True), (4097, False)):
        text = b"count=1,bytes=0=;" + b"x" * (length - 19) + b"=1"
        assert len(text) == length
        tree.set_data(base + b"/zookeeper_stats", len(text).to_bytes(4, "big") + text, 1, 2, 1)
        tree.set_data(b"/q", b"\0\0\0\3abc" if kept else EMPTY, 1, 3, 1)
        stats = tree.bodies[base + b"/zookeeper_stats"][4:-68]
        assert stats.startswith(b"count=1,bytes=3=;xxx") if kept else stats == b"count=1,bytes=0"
