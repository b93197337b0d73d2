"""What happens to the members of ensembles, while clients that keep book are at work."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from signal import SIGCONT, SIGSTOP
from typing import Final, TypeAlias

from ensembles.load import EnsembleLoad
from support.ensembles import Ensemble

TICK_MS: Final = 500
SYNC_LIMIT: Final = 6
SETTINGS: Final = {
    "tickTime": TICK_MS,
    "initLimit": 20,
    "syncLimit": SYNC_LIMIT,
    "maxSessionTimeout": 40_000,
    "maxClientCnxns": 0,
    "snapCount": 2000,  # so that snapshots are taken all the time
    "preAllocSize": 64,
}
HANG_SECONDS: Final = 1.5 * SYNC_LIMIT * TICK_MS / 1000
PACE_SECONDS: Final = 0.02


@contextmanager
def under_load(ensemble: Ensemble, seed: int = 0, *, writers: int = 3) -> Iterator[EnsembleLoad]:
    """Clients write and read until the block ends; then all they know is held against every member."""
    with closing(EnsembleLoad.begin(ensemble, seed, writers=writers, pause_seconds=PACE_SECONDS)) as load:
        with load.running():
            time.sleep(0.5)
            yield load
        load.audit()
        assert load.acknowledged > 100


# -- what is done to ensembles


def kill_the_leader(ensemble: Ensemble) -> None:
    leader = ensemble.wait_for_leader()
    ensemble[leader].kill9()
    ensemble.wait_for_leader()
    time.sleep(0.5)
    ensemble.start(leader)


def kill_followers(ensemble: Ensemble) -> None:
    """As many as a majority can do without."""
    followers = ensemble.followers()[: (len(ensemble.voters) - 1) // 2]
    ensemble.kill9(*followers)
    time.sleep(0.5)
    ensemble.start(*followers)


def kill_all(ensemble: Ensemble) -> None:
    ensemble.kill9()
    ensemble.start()


def kill_all_but_one(ensemble: Ensemble) -> None:
    """No majority is left, then there is one again."""
    survivor = random.Random(0).choice(ensemble.ids)
    ensemble.kill9(*ensemble.others(survivor))
    time.sleep(0.5)
    ensemble.start()


def restart_one_by_one(ensemble: Ensemble) -> None:
    for server_id in ensemble.ids:
        ensemble[server_id].stop()
        ensemble.start(server_id)


def hang_the_leader(ensemble: Ensemble) -> None:
    """It does not know that the others went on without it."""
    leader = ensemble.wait_for_leader()
    ensemble[leader].send_signal(SIGSTOP)
    time.sleep(HANG_SECONDS)
    ensemble[leader].send_signal(SIGCONT)
    ensemble.wait_until_serving()


def hang_a_follower(ensemble: Ensemble) -> None:
    follower = ensemble.followers()[0]
    ensemble[follower].send_signal(SIGSTOP)
    time.sleep(HANG_SECONDS)
    ensemble[follower].send_signal(SIGCONT)
    ensemble.wait_until_serving()


def lose_a_disk(ensemble: Ensemble) -> None:
    follower = ensemble.followers()[0]
    ensemble[follower].kill9()
    ensemble.erase(follower)
    ensemble.start(follower)


Trouble: TypeAlias = Callable[[Ensemble], None]
TROUBLES: Final[list[Trouble]] = [
    kill_the_leader,
    kill_followers,
    kill_all,
    kill_all_but_one,
    restart_one_by_one,
    hang_the_leader,
    hang_a_follower,
    lose_a_disk,
]
