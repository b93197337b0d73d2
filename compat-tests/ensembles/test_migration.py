"""A live ensemble of Apache's servers becomes one of ours, and one of Apache's again, member by member.

Stock Kazoo clients are at it all the time, with sessions, ephemeral nodes and locks that last from the first
step to the last. docs/MIGRATION.md tells people to do what is done here.
"""

import time

import pytest

from ensembles.load import assert_all_equal
from support.ensembles import Ensemble, start_ensemble
from support.kazoo_load import counting
from support.servers import Kind

pytestmark = [pytest.mark.timeout(600), pytest.mark.long, pytest.mark.usefixtures("reference")]

SETTINGS = {"tickTime": 2000, "maxClientCnxns": 0, "snapCount": 1000, "preAllocSize": 64}
BETWEEN_STEPS_SECONDS = 1.0


def migrate(ensemble: Ensemble, kind: Kind) -> None:
    """Followers first, the leader last: so there is one fail-over, not one for each step."""
    for server_id in [*ensemble.followers(), ensemble.wait_for_leader()]:
        ensemble.change_kind(server_id, kind)
        ensemble.wait_for_leader()
        ensemble.barrier()
        time.sleep(BETWEEN_STEPS_SECONDS)


def test_there_and_back_under_load(kind: Kind) -> None:
    """No acknowledged write is lost, none happens twice, no session ends."""
    with start_ensemble(["reference"] * 3, SETTINGS) as ensemble:
        with counting(ensemble.hosts) as counters:
            time.sleep(BETWEEN_STEPS_SECONDS)
            migrate(ensemble, kind)
            assert ensemble.ids_of(kind) == ensemble.ids
            migrate(ensemble, "reference")
        assert_all_equal(ensemble)
        assert sum(counter.acknowledged for counter in counters) > 1000


def test_a_step_is_taken_back(kind: Kind) -> None:
    """In the middle of a migration the first member goes back, and later there again."""
    with start_ensemble(["reference"] * 3, SETTINGS) as ensemble:
        with counting(ensemble.hosts):
            first = ensemble.followers()[0]
            for step in (kind, "reference", kind):
                ensemble.change_kind(first, step)
                ensemble.barrier()
        assert_all_equal(ensemble)


@pytest.mark.triokeeper_alone
def test_a_log_that_apaches_server_kept_beside_a_leaders_snapshot_is_put_aside() -> None:
    """It does not lead up to the snapshot: who went on from it would never hear of what is in between."""
    settings = SETTINGS | {"forceSnapshotSync": "true"}
    with start_ensemble(["reference", "triokeeper", "triokeeper"], settings) as ensemble:
        ensemble.barrier()
        ensemble[1].stop()
        with counting(f"{ensemble[2].host_port},{ensemble[3].host_port}"):
            time.sleep(BETWEEN_STEPS_SECONDS)
        ensemble.start(1)
        ensemble.change_kind(1, "triokeeper")
        assert "log_put_aside" in ensemble[1].log_text
        assert list((ensemble[1].data_dir / "version-2").glob("aside-log.*"))
        ensemble.barrier()
        assert_all_equal(ensemble)
