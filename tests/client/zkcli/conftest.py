"""Servers to talk to, and the time zone in which transcripts were recorded."""

import time
from collections.abc import Iterator

import pytest

from tools.zkcli.worlds import World, Worlds, worlds_of


@pytest.fixture(scope="package")
def worlds() -> Iterator[Worlds]:
    with worlds_of("triokeeper") as worlds:
        yield worlds


@pytest.fixture
def one_server(worlds: Worlds) -> World:
    return worlds["standalone"]


@pytest.fixture
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()
