"""A member whose disk was damaged refuses to start, and one step lets it take everything from its leader."""

import pytest
from kazoo.client import KazooClient

from ensembles.load import assert_all_equal
from ensembles.troubles import SETTINGS
from support.ensembles import Ensemble, start_ensemble, wait_until
from support.servers import Kind

pytestmark = [pytest.mark.timeout(300)]

EXIT_DATA = 3
NODES = 60
DAMAGED = 1


def write(ensemble: Ensemble, first: int) -> None:
    client = KazooClient(ensemble.hosts)
    client.start()
    try:
        for number in range(first, first + NODES):
            client.create(f"/n{number}", b"x" * 100)
    finally:
        client.stop()
        client.close()


def damage_a_log(ensemble: Ensemble) -> None:
    """Change a byte in the middle of what was acknowledged."""
    logs = sorted((ensemble[DAMAGED].data_dir / "version-2").glob("log.*"), key=lambda path: path.name)
    content = bytearray(logs[-1].read_bytes())
    content[len(content.rstrip(b"\0")) // 2] ^= 0x10
    logs[-1].write_bytes(content)


@pytest.mark.parametrize(
    "others",
    [
        pytest.param("triokeeper", id="with our own"),
        pytest.param("reference", id="with Apache's", marks=[pytest.mark.long]),
    ],
)
def test_a_damaged_member_is_told_to_fetch_everything(
    kind: Kind, others: Kind, request: pytest.FixtureRequest
) -> None:
    """What was written while it was away, too; then it is a member like any other."""
    if kind == "reference":
        pytest.skip("Apache's server does not know of fetch-from-leader")
    if others == "reference":
        request.getfixturevalue("reference")
    with start_ensemble([kind, others, others], SETTINGS, leader=3) as ensemble:
        member = ensemble[DAMAGED]
        write(ensemble, 0)
        member.kill9()
        write(ensemble, NODES)
        damage_a_log(ensemble)
        member.spawn()
        wait_until(lambda: member.ended_by_itself, lambda: member.failure("starts with damaged data"), 30)
        assert "fetch-from-leader" in member.log_text
        assert member.stop() == EXIT_DATA

        (member.data_dir / "fetch-from-leader").touch()
        member.start()
        assert not (member.data_dir / "fetch-from-leader").exists()
        write(ensemble, 2 * NODES)
        assert_all_equal(ensemble)
        ensemble[2].kill9()  # now its vote is needed
        write(ensemble, 3 * NODES)
