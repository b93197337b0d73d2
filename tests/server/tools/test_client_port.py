"""Where `zkServer.sh status` asks; the usual ways are in compat-tests/tools/script_recordings.txt."""

from collections.abc import Mapping

from server.tools.client_port import find_client_port


def find(config: Mapping[str, str], my_id: str = "1", dynamic: Mapping[str, str] | None = None) -> object:
    """Address, port and whether it is for TLS; or what was said, if nothing was found."""
    said: list[str] = []
    files = {"/dynamic": dynamic or {}}
    found = find_client_port(config, lambda: my_id, lambda name: files.get(name, {}), said.append)
    return said if found is None else (found.address, found.port, found.is_secure)


def test_a_static_port_needs_no_myid() -> None:
    assert find({"clientPort": "2181"}, my_id="") == ("localhost", "2181", False)


def test_the_static_address_counts_for_a_server_line_without_one() -> None:
    config = {"clientPortAddress": "10.0.0.1", "server.1": "zoo1:2888:3888;2181"}

    assert find(config) == ("10.0.0.1", "2181", False)


def test_the_dynamic_file_is_the_one_that_the_configuration_names() -> None:
    dynamic = {"server.1": "zoo1:2888:3888:participant;[fe80::1]:2182"}

    assert find({"dynamicConfigFile": "/dynamic"}, dynamic=dynamic) == ("fe80::1", "2182", False)


def test_the_secure_port_is_the_last_resort() -> None:
    assert find({"secureClientPort": "2281"}) == ("localhost", "2281", True)
    config = {"secureClientPort": "2281", "secureClientPortAddress": "10.0.0.1"}
    assert find(config) == ("10.0.0.1", "2281", True)


def test_a_port_that_is_no_number_is_still_what_the_configuration_says() -> None:
    assert find({"clientPort": "many"}) == ("localhost", "many", False)


def test_an_empty_client_part_is_none() -> None:
    assert find({"server.1": "zoo1:2888:3888;"}) == [
        "Client port not found in static config file. Looking in dynamic config file.",
        "Client port not found in the server configs",
        "Client port not found. Looking for secureClientPort in the static config.",
        "Unable to find either secure or unsecure client port in any configs. Terminating.",
    ]
