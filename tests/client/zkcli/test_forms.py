"""How stats, ACLs, data and lists are printed."""

import pytest

from client.zkcli.acl_text import parse_acl
from client.zkcli.forms import (
    acl_lines,
    base64_text,
    hex_dump,
    java_sorted,
    list_text,
    plain_text,
    stat_lines,
)
from jute.client_records import Acl, Id, Stat
from jute.opcodes import Perms


@pytest.mark.usefixtures("utc")
def test_a_stat() -> None:
    stat = Stat(1, 31, 0, 1794784828000, 2, 3, 4, -1, 5, 6, 7)

    assert stat_lines(stat) == [
        "cZxid = 0x1",
        "ctime = Thu Jan 01 00:00:00 UTC 1970",
        "mZxid = 0x1f",
        "mtime = Sun Nov 15 23:20:28 UTC 2026",
        "pZxid = 0x7",
        "cversion = 3",
        "dataVersion = 2",
        "aclVersion = 4",
        "ephemeralOwner = 0xffffffffffffffff",
        "dataLength = 5",
        "numChildren = 6",
    ]


def test_an_acl() -> None:
    acl = [Acl(Perms.ALL, Id("world", "anyone")), Acl(Perms.READ, Id("digest", "bob:x"))]

    assert list(acl_lines(acl)) == ["'world,'anyone", ": cdrwa", "'digest,'bob:x", ": r"]


@pytest.mark.parametrize(
    ("text", "acl", "complaints"),
    [
        ("world:anyone:rw", [Acl(3, Id("world", "anyone"))], []),
        ("digest:a:b:c", [Acl(4, Id("digest", "a:b"))], []),
        ("::", [Acl(0, Id("", ""))], []),
        ("auth::cdrwa,,", [Acl(31, Id("auth", ""))], []),
        ("a:b", [], ["a:b does not have the form scheme:id:perm"]),
        ("", [], [" does not have the form scheme:id:perm"]),
        (",", [], []),
        (",a:b:r", [Acl(1, Id("a", "b"))], [" does not have the form scheme:id:perm"]),
        ("a:b:rz", [Acl(1, Id("a", "b"))], ["Unknown perm type: z"]),
    ],
)
def test_acls_as_they_are_typed(text: str, acl: list[Acl], complaints: list[str]) -> None:
    told: list[str] = []

    assert parse_acl(text, told.append) == acl
    assert told == complaints


def test_data() -> None:
    assert plain_text(b"\xc3\xbc\xff") == "ü\ufffd"
    assert base64_text(b"\0\1") == "AAE="
    assert hex_dump(b"") == ""
    assert hex_dump(bytes(range(0x5E, 0x70))).splitlines()[3:] == [
        "|00000000| 5e 5f 60 61 62 63 64 65 66 67 68 69 6a 6b 6c 6d |^_`abcdefghijklm|",
        "|00000010| 6e 6f                                           |no              |",
        "+--------+-------------------------------------------------+----------------+",
    ]


def test_lists_are_sorted_by_utf_16_units() -> None:
    assert list_text(java_sorted(["b", "\uffee", "a", "\U0001f600"])) == "[a, b, \U0001f600, \uffee]"
