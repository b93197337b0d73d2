"""Paths as Java's client checks them, and chroots."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from client.paths import Chroot, InvalidPath, join, parent_of, validate_path


def java_says(path: str) -> str | None:
    """Java's check, one UTF-16 unit after the other: too simple to be wrong."""
    units = [chr(unit) for unit in memoryview(path.encode("utf-16-le", "surrogatepass")).cast("H")]
    if not units:
        return "Path length must be > 0"
    if units[0] != "/":
        return "Path must start with / character"
    if len(units) > 1 and units[-1] == "/":
        return "Path must not end with / character"
    for at in range(1, len(units)):
        before, unit, is_last = units[at - 1], units[at], at + 1 == len(units) or units[at + 1] == "/"
        problem = None
        if unit == "\0":
            problem = "null character not allowed"
        elif unit == "/" and before == "/":
            problem = "empty node name specified"
        elif unit == ".":
            begins = at - 1 if before == "." else at
            if units[begins - 1] == "/" and is_last:
                problem = "relative paths not allowed"
        elif (
            "\1" <= unit <= "\x1f"
            or "\x7f" <= unit <= "\x9f"
            or "\ud800" <= unit <= "\uf8ff"
            or unit >= "\ufff0"
        ):
            problem = "invalid character"
        if problem:
            return f'Invalid path string "{path}" caused by {problem} @{at}'
    return None


@given(st.text(st.sampled_from("/.a\0\x01\x80\ud800\uffff\U0001f600\u00e9"), max_size=9))
@example("/a\U0001f600")
@example("/..")
@example("/a/../b")
@example("/.a/...")
@example("//")
def test_paths_are_refused_in_javas_words(path: str) -> None:
    said = java_says(path)
    if said is None:
        validate_path(path)
    else:
        with pytest.raises(InvalidPath) as problem:
            validate_path(path)
        assert str(problem.value) == said


def test_a_sequential_path_may_end_with_a_slash() -> None:
    validate_path("/a/", is_sequential=True)
    with pytest.raises(InvalidPath):
        validate_path("/a/")


@pytest.mark.parametrize(
    ("chroot", "path", "on_server"),
    [("", "/", "/"), ("", "/a", "/a"), ("/app", "/", "/app"), ("/app", "/a", "/app/a")],
)
def test_a_chroot_goes_on_and_comes_off(chroot: str, path: str, on_server: str) -> None:
    assert Chroot(chroot).to_server(path) == on_server
    assert Chroot(chroot).to_client(on_server) == path


def test_a_path_outside_the_chroot_keeps_its_name() -> None:
    assert Chroot("/app").to_client("/zookeeper/config") == "/zookeeper/config"
    assert Chroot("/app").to_client("/apples") == "/apples"


def test_parents_and_children() -> None:
    assert [join("/", "a"), join("/a", "b")] == ["/a", "/a/b"]
    assert [parent_of("/a/b"), parent_of("/a"), parent_of("/")] == ["/a", "/", "/"]
