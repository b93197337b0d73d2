"""Which texts are paths, against a version that goes unit by unit as the original does."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jute.errors import BadArguments
from jute.primitives import decode_ustring, encode_ustring
from server.paths import ancestors_or_self, canonical, parent_of, split_for_write, validate


def is_valid(path: bytes) -> bool:
    try:
        validate(path)
    except BadArguments:
        return False
    return True


def is_valid_unit_by_unit(path: str) -> bool:
    """The rules one by one, over UTF-16 units."""
    raw = path.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2)]
    if not path.startswith("/"):
        return False
    if path == "/":
        return True
    if any(
        unit <= 0x1F or 0x7F <= unit <= 0x9F or 0xD800 <= unit <= 0xF8FF or 0xFFF0 <= unit <= 0xFFFF
        for unit in units
    ):
        return False
    return not {"", ".", ".."} & set(path.split("/")[1:])


PIECES = ["/", "a", ".", "..", "\u00e9", "\u007f", "\u0080", "\u009f", "\u00a0", "\ue000", "\uf900", "\uffef"]
PIECES += ["\ufff0", "\ufffd", "\U0001f600", "\0", "\x1f", " ", "zookeeper"]


@given(st.one_of(st.lists(st.sampled_from(PIECES)).map("".join), st.text()))
@example("/a/../b")
@example("/a..b")
@example("/.../x")
def test_the_rules_hold_unit_by_unit(text: str) -> None:
    """Whatever the text, and however it was spelt."""
    assert is_valid(canonical(text.encode("utf-8", "surrogatepass"))) == is_valid_unit_by_unit(
        decode_ustring(text.encode("utf-8", "surrogatepass"))
    )


@given(st.binary())
def test_a_canonical_path_has_one_spelling(raw: bytes) -> None:
    """It is what Java would write of what it has read, so that two spellings meet in one key."""
    assert canonical(raw) == encode_ustring(decode_ustring(raw))
    if is_valid(canonical(raw)):
        assert canonical(raw) == raw


@pytest.mark.parametrize(
    ("path", "parent"),
    [(b"/a", b"/"), (b"/a/b", b"/a"), (b"/", b"/"), (b"/a/", b"/a"), (b"//x", b"/"), (b"a/b", b"a")],
)
def test_parents(path: bytes, parent: bytes) -> None:
    """What stands before the last slash; where nothing does, the root."""
    assert parent_of(path) == split_for_write(path) == parent


@pytest.mark.parametrize("path", [b"", b"a", b"/a\0", b"\0/"])
def test_what_cannot_be_split(path: bytes) -> None:
    """No slash, or a NUL."""
    with pytest.raises(BadArguments):
        split_for_write(path)


@pytest.mark.parametrize(
    ("path", "above"),
    [(b"/", [b"/"]), (b"/a", [b"/a", b"/"]), (b"/a/b/c", [b"/a/b/c", b"/a/b", b"/a", b"/"])],
)
def test_ancestors(path: bytes, above: list[bytes]) -> None:
    """Nearest first."""
    assert list(ancestors_or_self(path)) == above
