"""The keys of zoo.cfg as the scripts read them."""

import pytest

from server.container.config_lines import Line
from server.tools.zoo_cfg_lines import read_lines


@pytest.mark.parametrize(
    "line", ["dataDir=/data", "  dataDir = /data  ", "dataDir:/data", "dataDir /data", "data\\Dir=\\/data"]
)
def test_every_way_to_write_a_line(line: str) -> None:
    assert read_lines(line) == {"dataDir": "/data"}


def test_comments_are_no_keys_and_the_last_of_equal_keys_counts() -> None:
    text = "# dataDir=/a\n! dataDir=/b\n\nclientPort=1\nclientPort=2\ndataDir=/with=sign\n"

    assert read_lines(text) == {"clientPort": "2", "dataDir": "/with=sign"}


def test_a_server_line_keeps_its_colons() -> None:
    assert read_lines("server.1=[::1]:2888:3888;[::1]:2181") == {"server.1": "[::1]:2888:3888;[::1]:2181"}


def test_what_a_containers_entrypoint_writes_is_read_back() -> None:
    path = "/dä/🦓/tab\t/\udcff"

    assert read_lines(Line("dataDir", path).text) == {"dataDir": path}


def test_no_byte_of_a_letter_ends_a_line() -> None:
    """The second byte of Å is, as a character, the end of a line for Python and for no other."""
    text = "# Å dataDir=/old\ndataDir=/Å\r\nclientPort=1\rtickTime=2".encode().decode("latin-1")

    assert read_lines(text) == {"dataDir": "/\xc3\x85", "clientPort": "1", "tickTime": "2"}
