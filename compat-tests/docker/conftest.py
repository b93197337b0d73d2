"""An engine, the image and a place to run containers; brought up if they are not there."""

import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from docker.client import DockerClient

from scripts.docker_engine import EngineUnavailable, engine
from scripts.docker_image import IMAGE, build_image
from support.docker_containers import Box, Lab, open_lab

# The docker package leaves sockets to the garbage collector, which finds them in whichever test it likes.
_LEFT_OPEN = (
    "ignore:Exception ignored in. <socket.socket fd=.*family=1:pytest.PytestUnraisableExceptionWarning"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(_LEFT_OPEN))


@pytest.fixture(scope="session")
def docker_client() -> Iterator[DockerClient]:
    with ExitStack() as stack:
        try:
            client = stack.enter_context(engine())
        except EngineUnavailable as reason:
            pytest.skip(str(reason))
        yield client
        gc.collect()  # finds the sockets while the filter above is still in force


@pytest.fixture(scope="session")
def image(docker_client: DockerClient) -> str:
    """Built from this checkout, unless TRIOKEEPER_IMAGE names one to test as it is."""
    named = os.environ.get("TRIOKEEPER_IMAGE")
    if named is None:
        build_image(docker_client)
    return named or IMAGE


@pytest.fixture
def lab(docker_client: DockerClient, image: str) -> Iterator[Lab]:
    with open_lab(docker_client, image) as lab:
        yield lab


@pytest.fixture(scope="module")
def shared_lab(docker_client: DockerClient, image: str) -> Iterator[Lab]:
    """For what all tests of a file look at together."""
    with open_lab(docker_client, image) as lab:
        yield lab


@pytest.fixture(scope="module")
def plain(shared_lab: Lab) -> Box:
    """`docker run triokeeper`, with nothing said: only to look at."""
    return shared_lab.run()
