"""The rules by which monitoring agents read `mntr` and `stat`."""

import re

NUMBER = r"-?\d+(?:\.\d+)?"
# Telegraf gives up on all of an answer if one line is not like this.
TELEGRAF_LINE = re.compile(r"zk_(\w[\w.\-]*)\s+([\w.\-]+)")
# Datadog reads lines by their position.
DATADOG_STAT = re.compile(
    r"\w+ version: v?(\d+\.\d+\.\d+)-[^,]+, built on .+\n"
    r"Clients:\n(?P<clients>(?: \S+\n)*)\n"
    rf"Latency min/avg/max: {NUMBER}/{NUMBER}/{NUMBER}\n"
    r"Received: \d+\nSent: \d+\nConnections: \d+\nOutstanding: \d+\n"
    r"Zxid: 0x[0-9a-f]{1,16}\nMode: (?P<mode>\w+)\nNode count: \d+\n"
    rf"(?:Proposal sizes last/min/max: {NUMBER}/{NUMBER}/{NUMBER}\n)?"
)
TEXTS = {"zk_version", "zk_server_state", "zk_peer_state"}
EXPECTED = {"zk_znode_count", "zk_watch_count", "zk_num_alive_connections", "zk_outstanding_requests"}


def check_mntr(answer: str, state: str) -> None:
    lines = answer.splitlines()
    assert [line for line in lines if not TELEGRAF_LINE.match(line)] == []
    values = dict(line.split("\t", 1) for line in lines)
    assert re.fullmatch(r"\d+\.\d+\.\d+-[0-9a-f]{40}, built on .+", values["zk_version"])
    assert values["zk_server_state"] == state
    numbers = {key: value for key, value in values.items() if key not in TEXTS}
    assert [line for line in numbers.items() if not re.fullmatch(NUMBER, line[1])] == []
    assert {key for key in EXPECTED if numbers[key].isdigit()} == EXPECTED


def check_stat(answer: str, mode: str) -> None:
    read = DATADOG_STAT.fullmatch(answer)
    assert read is not None, answer
    assert read["mode"] == mode
    assert len(read["clients"].splitlines()) >= 1  # the one that asks
