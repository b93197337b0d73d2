"""Every recipe of Kazoo, on any server; kazoo_recipes.py is what they do."""

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from recipes.kazoo_recipes import RECIPES, two_clients
from support.targets import Service


@pytest.fixture(scope="module")
def clients(service: Service) -> Iterator[tuple[KazooClient, KazooClient]]:
    with two_clients(service.hosts) as clients:
        yield clients


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", RECIPES)
def test_kazoo_recipe(name: str, clients: tuple[KazooClient, KazooClient]) -> None:
    RECIPES[name](*clients, f"/recipes-{name}")
