"""Which kind of server ensembles of one kind are made of: ours, unless --server says otherwise."""

import pytest

from support.servers import Kind


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--server",
        choices=["triokeeper", "reference"],
        default="triokeeper",
        help="the kind of server in ensembles of one kind; with `reference` the tests themselves are tested",
    )


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> Kind:
    """The kind of all members."""
    chosen: Kind = request.config.getoption("--server")
    return chosen
