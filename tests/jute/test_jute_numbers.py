"""Opcodes, modes, error codes and zxids, held against Kazoo's tables where it has them."""

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol import serialization

from jute import errors
from jute.errors import MarshallingError, NoNode, UnknownSession, ZkError, error_for
from jute.opcodes import CreateMode, OpCode, Perms
from jute.zxid import counter_of, epoch_of, format_zxid, make_zxid
from tests.strategies import signed


def test_opcodes_are_kazoos() -> None:
    """Every request Kazoo can send has its number here, and under the same name."""
    theirs = {
        name.lower(): vars(cls)["type"]
        for name, cls in inspect.getmembers(serialization, inspect.isclass)
        if isinstance(vars(cls).get("type"), int)
    }
    renamed = {"checkversion": "check", "close": "closesession", "transaction": "multi"}
    ours = {op.name.replace("_", "").lower(): op.value for op in OpCode}
    assert theirs
    for name, number in theirs.items():
        assert ours[renamed.get(name, name)] == number


def test_error_codes_are_kazoos() -> None:
    """Every code Kazoo knows has a class of its own here, and under the same name but for its suffix."""
    renamed = {
        "SystemZookeeper": "SystemError_",
        "NotReadOnlyCall": "NotReadOnly",
        "ReconfigInProcess": "ReconfigInProgress",
        "SessionClosedRequireSasl": "SessionClosedRequireAuth",
    }
    for code in EXCEPTIONS.keys() - {0}:
        name = EXCEPTIONS[code].__name__.removesuffix("Error")
        assert error_for(code).code == code
        assert error_for(code).__name__.removesuffix("Error").lower() == renamed.get(name, name).lower()


def test_each_error_is_found_by_its_code() -> None:
    """No two classes share a code."""
    classes = [
        cls
        for _, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, ZkError) and cls is not ZkError
    ]
    assert len(classes) == 35
    for cls in classes:
        assert error_for(cls.code) is cls


def test_codes_without_a_class() -> None:
    """An unknown code becomes the one Java answers then; 0 is no error at all."""
    assert error_for(-126) is MarshallingError
    assert error_for(-12) is UnknownSession
    with pytest.raises(ValueError, match="OK"):
        error_for(0)


def test_an_error_carries_its_code_and_message() -> None:
    """What is raised can be answered."""
    with pytest.raises(ZkError, match="/a") as caught:
        raise NoNode("/a")
    assert caught.value.code == -101


@pytest.mark.parametrize(
    ("mode", "is_ephemeral", "is_sequential", "is_ttl", "is_container"),
    [
        (0, False, False, False, False),
        (1, True, False, False, False),
        (2, False, True, False, False),
        (3, True, True, False, False),
        (4, False, False, False, True),
        (5, False, False, True, False),
        (6, False, True, True, False),
    ],
)
def test_create_modes(
    mode: int, is_ephemeral: bool, is_sequential: bool, is_ttl: bool, is_container: bool
) -> None:
    """From 4 on the numbers are no bit mask."""
    create_mode = CreateMode(mode)
    assert create_mode.is_ephemeral == is_ephemeral
    assert create_mode.is_sequential == is_sequential
    assert create_mode.is_ttl == is_ttl
    assert create_mode.is_container == is_container


def test_all_is_every_permission() -> None:
    """ALL is the sum of the others."""
    assert sum(perm.value for perm in Perms if perm is not Perms.ALL) == Perms.ALL.value


@given(signed(64))
def test_a_zxid_is_its_epoch_and_its_counter(zxid: int) -> None:
    """Taken apart and put together again, it is the same, of whichever sign."""
    assert make_zxid(epoch_of(zxid), counter_of(zxid)) == zxid


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1))
def test_zxids_sort_by_epoch_first(epoch: int, counter: int) -> None:
    """No counter reaches into the next epoch."""
    assert make_zxid(epoch, counter) < make_zxid(epoch + 1, 0)
    assert (epoch_of(make_zxid(epoch, counter)), counter_of(make_zxid(epoch, counter))) == (epoch, counter)


@pytest.mark.parametrize(
    ("zxid", "text"),
    [(0, "0x0"), (0x10000000A, "0x10000000a"), (-1, "0xffffffffffffffff"), (-(2**63), "0x8000000000000000")],
)
def test_zxids_print_as_java_prints_them(zxid: int, text: str) -> None:
    """Long.toHexString knows no minus sign."""
    assert format_zxid(zxid) == text
