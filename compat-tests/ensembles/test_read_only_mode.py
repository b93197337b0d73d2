"""A member that is cut off from the others serves clients that only want to read, until the others are back.

`pytest --server=reference` runs the same against Apache ZooKeeper.
"""

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import NotReadOnlyCallError
from kazoo.protocol.states import KeeperState

from support.ensembles import Ensemble, prepare_ensemble, wait_until
from support.servers import SMALL_FLAGS, Kind, ServerFailed

pytestmark = [pytest.mark.timeout(120), pytest.mark.long]

# A session of a read-only server can only be local.
SETTINGS = {"tickTime": 500, "initLimit": 20, "syncLimit": 6, "localSessionsEnabled": "true"}
FLAGS = (*SMALL_FLAGS, "-Dreadonlymode.enabled=true")
SECONDS_MAX = 20.0


def wait_for_mode(ensemble: Ensemble, server_id: int, mode: str) -> None:
    def failure() -> ServerFailed:
        return ensemble.failure(f"has no {mode} server {server_id}")

    wait_until(lambda: ensemble[server_id].mode == mode, failure, SECONDS_MAX)


def test_a_member_left_alone_serves_readers_until_there_is_a_quorum_again(kind: Kind) -> None:
    """What was written before can be read; nothing can be written; afterwards everything is as before."""
    with prepare_ensemble([kind] * 3, SETTINGS, jvm_flags=FLAGS) as ensemble:
        ensemble.start()
        alone = ensemble.followers()[0]
        others = ensemble.others(alone)
        writer = KazooClient(hosts=ensemble[others[0]].host_port)
        writer.start()
        writer.create("/before", b"read me")
        writer.stop()
        writer.close()
        ensemble.barrier()

        ensemble.kill9(*others)
        wait_for_mode(ensemble, alone, "read-only")
        assert ensemble[alone].four_letter_word("isro") == "ro"
        assert_refuses_writers(ensemble, alone)

        reader = KazooClient(hosts=ensemble[alone].host_port, read_only=True)
        states: list[KazooState] = []
        reader.add_listener(states.append)
        reader.start(timeout=10)
        try:
            assert reader.client_state == KeeperState.CONNECTED_RO
            assert reader.get("/before")[0] == b"read me"
            with pytest.raises(NotReadOnlyCallError):
                reader.create("/never", b"")

            ensemble.start(*others)
            wait_until(
                lambda: reader.client_state == KeeperState.CONNECTED,
                lambda: ensemble.failure("lets the reader not become a writer"),
                SECONDS_MAX,
            )
            assert ensemble[alone].four_letter_word("isro") == "rw"
            reader.create("/after", b"")
            assert reader.exists("/never") is None
        finally:
            reader.stop()
            reader.close()
        assert KazooState.SUSPENDED in states


def assert_refuses_writers(ensemble: Ensemble, server_id: int) -> None:
    """A client that did not say it would be content to read is not served."""
    client = KazooClient(hosts=ensemble[server_id].host_port)
    with pytest.raises(client.handler.timeout_exception):
        client.start(timeout=2)
    client.stop()
    client.close()
