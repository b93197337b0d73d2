"""What passes of Apache's own client tests on an Apache server outside passes on any other one, too."""

from collections.abc import Callable
from pathlib import Path

import pytest

from clients.java.junit.suite import CLASSES, run_class
from support.reference import ReferenceUnavailable
from support.targets import OwnServers, Service, TargetUnavailable

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
_apache: dict[str, dict[str, str]] = {}


def with_apache(name: str, folder: Path) -> dict[str, str]:
    """The same class on a server of Apache's own; run once."""
    if name not in _apache:
        folder.mkdir()
        with OwnServers("reference").restartable() as service:
            _apache[name] = run_class(name, service, folder)
    return _apache[name]


@pytest.mark.parametrize("name", CLASSES)
def test_apaches_own_client_tests(
    name: str, restartable: Service, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("client", "Apache's JUnit tests 3.9.5")
    try:
        here = run_class(name, restartable, tmp_path)
        failed = {test: why for test, why in here.items() if why}
        theirs = with_apache(name, tmp_path / "apache") if failed else {}
    except (ReferenceUnavailable, TargetUnavailable) as reason:
        pytest.skip(str(reason))
    assert here
    record_property("tests", len(here) - len(failed))
    print(f"{len(here) - len(failed)} of {len(here)} pass; the others fail on Apache's server as well")
    assert {test: why for test, why in failed.items() if not theirs.get(test)} == {}
    assert len(failed) < len(here), "no test of this class can run with a server outside"
