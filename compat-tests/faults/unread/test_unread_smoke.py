"""Clients that read nothing, as few and as short as says something; `make unread` is the long one."""

import pytest

from faults.unread.run import ACTS, MIB, WORDS, attack
from support.servers import start_server

pytestmark = pytest.mark.triokeeper_alone


@pytest.mark.timeout(120)
def test_what_clients_do_not_read_is_bounded_and_given_back() -> None:
    with start_server("triokeeper", {"maxClientCnxns": 0}) as server:
        outcome = attack(server, 2 * (len(ACTS) + len(WORDS)), seconds=3)
    print(outcome)
    assert outcome.is_bounded
    assert outcome.after < outcome.before + 32 * MIB
