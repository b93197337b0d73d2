"""The configuration of an ensemble, as `config -c` and `reconfig -file` have it."""

import pytest

from client.zkcli.failures import CommandFailed
from client.zkcli.member_text import client_addresses, members_of_file

CONFIG = """server.1=a:2888:3888:participant;a:2181
server.2=b:2888:3888:participant;2182
server.3=c:2888:3888:observer
version=100000003"""


def test_client_addresses_come_in_the_order_of_javas_properties() -> None:
    assert client_addresses(CONFIG) == "100000003 0.0.0.0:2182,a:2181,"
    assert client_addresses("") == " "


def test_the_members_of_a_file() -> None:
    text = "# comment\nserver.1 = a:1:2;3\ngroup.1=1\nweight.1=1\nversion=5\n"

    assert members_of_file(text) == "server.1=a:1:2;3\ngroup.1=1\nweight.1=1"


def test_a_file_of_something_else_is_refused() -> None:
    with pytest.raises(CommandFailed, match="Unrecognised parameter: dataDir"):
        members_of_file("dataDir=/data")
