"""Connect strings: what they name, and what is said about those that name nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.connect_string import InvalidConnectString, parse_connect_string
from client.paths import InvalidPath


@pytest.mark.parametrize(
    ("text", "hosts", "chroot"),
    [
        ("localhost", (("localhost", 2181),), ""),
        ("a:1,b:2", (("a", 1), ("b", 2)), ""),
        (" a:1 , ,b", (("a", 1), ("b", 2181)), ""),
        ("a:1/", (("a", 1),), ""),
        ("a:1,b:2/app/x", (("a", 1), ("b", 2)), "/app/x"),
        ("a:", (("a", 2181),), ""),
        ("[::1]", (("::1", 2181),), ""),
        ("[::1]:2182,[fe80::1%eth0]:9", (("::1", 2182), ("fe80::1%eth0", 9)), ""),
    ],
)
def test_it_names_servers_and_a_chroot(text: str, hosts: tuple[tuple[str, int], ...], chroot: str) -> None:
    parsed = parse_connect_string(text)
    assert (parsed.hosts, parsed.chroot.prefix) == (hosts, chroot)
    assert parse_connect_string(str(parsed)) == parsed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no server"),
        ("/app", "names no server"),
        ("a:x", "the port 'x' is no number from 1 to 65535"),
        ("a:0", "the port '0'"),
        ("a:65536", "the port '65536'"),
        ("a:²", "the port '²'"),
        (":2181", "the host is missing"),
        ("[::1", "an IPv6 address is written"),
        ("[]:1", "an IPv6 address is written"),
    ],
)
def test_what_is_wrong_is_named(text: str, words: str) -> None:
    with pytest.raises(InvalidConnectString, match=words):
        parse_connect_string(text)


def test_a_chroot_is_a_path() -> None:
    with pytest.raises(InvalidPath, match="Path must not end with / character"):
        parse_connect_string("a:1/app/")


@given(st.text(max_size=30))
def test_any_text_is_a_connect_string_or_refused(text: str) -> None:
    """No text makes it fail in another way, and what it accepts it can spell."""
    try:
        parsed = parse_connect_string(text)
    except (InvalidConnectString, InvalidPath):
        return
    assert parsed.hosts
    assert all(host and 0 < port < 65536 for host, port in parsed.hosts)
