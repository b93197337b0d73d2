"""Stock clients through `triokeeper crosscheck`, between Apache ZooKeeper and Triokeeper: no difference."""

import pytest

from clients.java.programs import run_java
from recipes.kazoo_recipes import run_recipes
from recipes.leader_election import run_election
from support.crosschecks import start_crosscheck
from support.servers import SMALL_FLAGS, Kind, start_server
from support.targets import FLAGS
from support.targets import SETTINGS as TARGET_SETTINGS

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("reference")]
ORDERS: list[tuple[Kind, Kind]] = [("reference", "triokeeper"), ("triokeeper", "reference")]
SETTINGS = {"tickTime": 200, "maxSessionTimeout": 40_000}


@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_kazoos_recipes_see_no_difference(first: Kind, second: Kind) -> None:
    with (
        start_server(first, SETTINGS, jvm_flags=SMALL_FLAGS) as one,
        start_server(second, SETTINGS, jvm_flags=SMALL_FLAGS) as other,
        start_crosscheck(one.host_port, other.host_port) as check,
    ):
        run_recipes(check.hosts)

    check.assert_equal(requests_min=200)


@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_sessions_that_expire_are_no_difference(first: Kind, second: Kind) -> None:
    """Candidates are killed, so that each server ends their sessions at a moment of its own."""
    with (
        start_server(first, SETTINGS, jvm_flags=SMALL_FLAGS) as one,
        start_server(second, SETTINGS, jvm_flags=SMALL_FLAGS) as other,
        start_crosscheck(one.host_port, other.host_port) as check,
    ):
        run_election(check.hosts, session_seconds=2.0)

    check.assert_equal(requests_min=15)


@pytest.mark.long
@pytest.mark.timeout(900)  # the first run fetches the libraries
@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_curators_recipes_see_no_difference(first: Kind, second: Kind) -> None:
    """They keep their nodes in containers and in nodes with a time to live, which either server removes."""
    flags = (*SMALL_FLAGS, *FLAGS)
    with (
        start_server(first, TARGET_SETTINGS, jvm_flags=flags) as one,
        start_server(second, TARGET_SETTINGS, jvm_flags=flags) as other,
        start_crosscheck(one.host_port, other.host_port) as check,
    ):
        told = run_java("CuratorRecipes", check.hosts)

    assert told.endswith("== end\n")
    check.assert_equal(requests_min=500)
