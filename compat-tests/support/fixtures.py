"""Fixtures for every folder of tests that starts servers; a conftest.py imports those it needs."""

import pytest

from support.reference import ReferenceUnavailable, find_reference


@pytest.fixture
def reference() -> None:
    """Skip the test where Apache ZooKeeper cannot be run."""
    try:
        find_reference()
    except ReferenceUnavailable as reason:
        pytest.skip(str(reason))
