"""Servers to talk to, and the time zone in which transcripts were recorded."""

import time
from collections.abc import Iterator

import pytest
from zkcli_worlds import World, start_world


@pytest.fixture(scope="package")
def one_server() -> Iterator[World]:
    with start_world("standalone") as world:
        yield world


@pytest.fixture(scope="package")
def three_servers() -> Iterator[World]:
    with start_world("ensemble") as world:
        yield world


@pytest.fixture
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()
