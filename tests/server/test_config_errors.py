"""Every configuration that a server must refuse, with the original's words and exit code for it."""

import socket
from pathlib import Path
from typing import NoReturn

import attrs
import pytest

from quorum.checked_lines import checked
from server.config_error import INVALID_ARGUMENTS, INVALID_CONFIG, UNEXPECTED, ConfigError
from server.config_loading import load_config, load_direct_form
from tests.server.zoo_cfg_files import write_zoo_cfg

LEAST = "dataDir=DIR/data\nclientPort=2181\n"
ENSEMBLE = "server.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\n"
DISTRIBUTED = LEAST + "initLimit=10\nsyncLimit=5\n" + ENSEMBLE
WRONG_FORM = (
    " does not have the form server_config or server_config;client_config where server_config is the pipe"
    " separated list of host:port:port or host:port:port:type and client_config is port or host:port"
)


@attrs.frozen
class Mistake:
    """A wrong zoo.cfg and what is said about it; `line` is that of the setting to blame, if one is."""

    name: str
    text: str
    wording: str
    line: int | None = None
    my_id: str | None = None
    exit_code: int = 2
    summary: str = INVALID_CONFIG


MISTAKES = [
    Mistake("no dataDir", "clientPort=2181", "dataDir is not set"),
    Mistake("empty dataDir", "dataDir=", "Invalid file path", line=1),
    Mistake("address without port", "dataDir=DIR\nclientPortAddress=127.0.0.1", "clientPortAddress is set but clientPort is not set", 2),
    Mistake("secure address without port", LEAST + "secureClientPortAddress=127.0.0.1", "secureClientPortAddress is set but secureClientPort is not set", 3),
    Mistake("no number", LEAST + "\n# a comment\ntickTime=abc", 'For input string: "abc"', 5),
    Mistake("trailing comment", LEAST + "tickTime=2000 # two seconds", 'For input string: "2000 # two seconds"', 3),
    Mistake("number too large", LEAST + "initLimit=2147483648", 'For input string: "2147483648"', 3),
    Mistake("port too large", "dataDir=DIR\nclientPort=70000", "port out of range:70000", 2),
    Mistake("no tick", LEAST + "tickTime=0", "tickTime is not set", 3),
    Mistake("negative tick", LEAST + "tickTime=-1", "tickTime must be above zero", 3),
    Mistake("session bounds crossed", LEAST + "minSessionTimeout=9\nmaxSessionTimeout=8", "minSessionTimeout must not be larger than maxSessionTimeout", 3),
    Mistake("maximum below two ticks", LEAST + "maxSessionTimeout=8", "minSessionTimeout must not be larger than maxSessionTimeout", 3),
    Mistake("no boolean", LEAST + "reconfigEnabled=yes", "Invalid option yes for reconfigEnabled. Choose 'true' or 'false.'", 3),
    Mistake("JVM key no boolean", LEAST + "jvm.pause.monitor=1", "Invalid option 1 for jvm.pause.monitor. Choose 'true' or 'false.'", 3),
    Mistake("election algorithm", LEAST + "electionAlg=2", "Invalid electionAlg value. Only 3 is supported.", 3),
    Mistake("peer type", LEAST + "peerType=boss", "Unrecognised peertype: boss", 3),
    Mistake("secureClientPort alone", "dataDir=DIR\nsecureClientPort=2281", "secureClientPort is set and clientPort is not", 2),
    Mistake("digest algorithm", LEAST + "DigestAuthenticationProvider.digestAlg=SHA9", "SHA9 is no digest algorithm of this system", 3),
    Mistake("metrics provider", LEAST + "metricsProvider.className=a.B", "metrics provider class was not found", 3),
    Mistake("bad escape", LEAST + "tickTime=\\u12G4", "line 3: Malformed \\uxxxx encoding"),
    Mistake("no initLimit", LEAST + ENSEMBLE, "initLimit is not set", my_id="1"),
    Mistake("no syncLimit", LEAST + "initLimit=10\n" + ENSEMBLE, "syncLimit is not set", my_id="1"),
    Mistake("negative initLimit", DISTRIBUTED.replace("=10", "=-1"), "initLimit must be above zero", 3, my_id="1"),
    Mistake("negative syncLimit", DISTRIBUTED.replace("=5", "=-1"), "syncLimit must be above zero", 4, my_id="1"),
    Mistake("server id of TTL nodes", DISTRIBUTED + "server.255=d:2888:3888\nextendedTypesEnabled=true", "extendedTypesEnabled is true but Server ID is too large. Cannot be larger than 254", 9, my_id="255", exit_code=1, summary=UNEXPECTED),
    Mistake("no myid", DISTRIBUTED, "myid file is missing"),
    Mistake("myid no number", DISTRIBUTED, "serverid abc is not a number", my_id="abc"),
    Mistake("myid empty", DISTRIBUTED, "serverid null is not a number", my_id=""),
    Mistake("myid with a blank", DISTRIBUTED, "serverid 1  is not a number", my_id="1 "),
    Mistake("myid no number, standalone", LEAST, "serverid x is not a number", my_id="x"),
    Mistake("myid not listed", DISTRIBUTED, "My id 9 not in the peer list", my_id="9", exit_code=1, summary=UNEXPECTED),
    Mistake("one participant and observers", LEAST + "server.1=a:1:2\nserver.2=b:1:2:observer", "Observers w/o quorum is an invalid configuration"),
    Mistake("observers only", LEAST + "server.1=a:1:2:observer", "Observers w/o participants is an invalid configuration"),
    Mistake("nobody, and not standalone", LEAST + "standaloneEnabled=false", "standaloneEnabled = false then number of participants should be >0", 3),
    Mistake("server line too short", LEAST + "server.1=a:2888", "a:2888" + WRONG_FORM, 3),
    Mistake("server line too long", LEAST + "server.1=a:1:2:observer:x", "a:1:2:observer:x" + WRONG_FORM, 3),
    Mistake("two client parts", LEAST + "server.1=a:1:2;3;4", "a:1:2;3;4" + WRONG_FORM, 3),
    Mistake("client part too long", LEAST + "server.1=a:1:2;h:3:4", "a:1:2;h:3:4" + WRONG_FORM, 3),
    Mistake("role of a server line", LEAST + "server.1=a:1:2:boss", "Unrecognised peertype: boss", 3),
    Mistake("port no number", LEAST + "server.1=a:x:2", "Address unresolved: a:x", 3),
    Mistake("open bracket", LEAST + "server.1=[::1:1:2", "[::1:1:2 starts with '[' but has no matching ']:'", 3),
    Mistake("equal ports", LEAST + "server.1=a:2888:2888", "Client and election port must be different! Please update the configuration file on server.1", 3),
    Mistake("server id no number", LEAST + "server.x=a:1:2", 'For input string: "x"', 3),
    Mistake("several addresses", LEAST + "server.1=a:1:2|b:1:2", "Multiple address feature is disabled, but multiple addresses were specified for sid 1", 3),
    Mistake("roles differ", LEAST + "multiAddress.enabled=true\nserver.1=a:1:2:observer|b:1:2:participant", "Multiple addresses should have similar roles", 4),
    Mistake("in two groups", LEAST + ENSEMBLE + "group.1=1:2\ngroup.2=2:3", "Server 2 is in multiple groups"),
    Mistake("in no group", LEAST + ENSEMBLE + "group.1=1:2", "Server 3 is not in a group"),
    Mistake("server line beside dynamic file", LEAST + "dynamicConfigFile=DIR/d\nserver.1=a:1:2", "parameter: server.1 must be in a separate dynamic config file", 4),
    Mistake("dynamic file missing", LEAST + "dynamicConfigFile=DIR/d", "/d (No such file or directory)", 3),
    Mistake("client address contradicts", DISTRIBUTED.replace("c:2888:3888", "c:2888:3888;2182"), "client address for this server (id = 3) in static config file is 0.0.0.0:2181 is different from client address found in dynamic file: 0.0.0.0:2182", 2, my_id="3"),
    Mistake("schemes to enforce missing", LEAST + "enforce.auth.enabled=true", "zookeeper.enforce.auth.enabled is true zookeeper.enforce.auth.schemes must be  configured.", summary=INVALID_ARGUMENTS),
    Mistake("scheme not available", LEAST + "enforce.auth.enabled=true\nenforce.auth.schemes=digest, sasl", "Authentication scheme sasl is not available.", 4, summary=INVALID_ARGUMENTS),
    Mistake("digest switched off", LEAST + "enforce.auth.enabled=true\nenforce.auth.schemes=digest\nDigestAuthenticationProvider.enabled=false", "Authentication scheme digest is not available.", 4, summary=INVALID_ARGUMENTS),
    Mistake("SASL demanded", LEAST + "sessionRequireClientSASLAuth=true", "Authentication scheme sasl is not available.", 3, summary=INVALID_ARGUMENTS),
    Mistake("TLS scheme without provider", LEAST + "secureClientPort=2281\nssl.authProvider=foo", "No auth provider configured for the SSL authentication scheme 'foo'.", 4),
    Mistake("quorum SASL off, required of servers", LEAST + "quorum.auth.serverRequireSasl=true", "quorum.auth.enableSasl is disabled, so cannot enable quorum.auth.serverRequireSasl", 3),
    Mistake("quorum SASL off, required of learners", LEAST + "quorum.auth.learnerRequireSasl=true", "quorum.auth.enableSasl is disabled, so cannot enable quorum.auth.learnerRequireSasl", 3),
    Mistake("quorum SASL required of servers alone", LEAST + "quorum.auth.enableSasl=true\nquorum.auth.serverRequireSasl=true", "quorum.auth.learnerRequireSasl is disabled, so cannot enable quorum.auth.serverRequireSasl", 4),
]  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_wrong_configuration_is_refused_with_place_reason_and_remedy(
    mistake: Mistake, tmp_path: Path
) -> None:
    file = write_zoo_cfg(tmp_path, mistake.text, my_id=mistake.my_id)

    with pytest.raises(ConfigError) as caught:
        load_config(file, {})

    error = caught.value
    assert mistake.wording in str(error)
    assert f"Error processing {tmp_path}" in str(error)
    assert error.place.line == mistake.line
    assert error.remedy
    assert (error.exit_code, error.summary) == (mistake.exit_code, mistake.summary)


def test_the_text_of_an_error_names_file_line_key_value_and_remedy(tmp_path: Path) -> None:
    file = write_zoo_cfg(tmp_path, "dataDir=DIR\nclientPort=abc\n")

    with pytest.raises(ConfigError) as caught:
        load_config(file, {})

    assert str(caught.value) == (
        f'Error processing {file}: line 2, clientPort=abc: For input string: "abc"\n'
        "  Remedy: write a whole number, at most 2147483647, and nothing after it"
    )


def test_a_missing_file_is_called_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.cfg file is missing"):
        load_config(tmp_path / "nowhere.cfg", {})


def test_a_directory_is_no_configuration_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        load_config(tmp_path, {})


def test_an_address_that_does_not_resolve_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(host: str, port: None) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", find_nothing)
    file = write_zoo_cfg(tmp_path, LEAST + "clientPortAddress=no.such.host")

    with pytest.raises(ConfigError, match=r"no\.such\.host: Name or service not known") as caught:
        load_config(file, {})

    assert caught.value.place.line == 3


def test_a_jaas_file_that_is_not_there_ends_the_start_with_exit_code_1(tmp_path: Path) -> None:
    file = write_zoo_cfg(tmp_path, LEAST)

    with pytest.raises(ConfigError, match="No JAAS configuration section named 'Server' was found") as caught:
        load_config(file, {"JVMFLAGS": f"-Djava.security.auth.login.config={tmp_path}/jaas.conf"})

    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("line", "wording"),
    [
        ("version=100", "dynamic file shouldn't have version inside"),
        ("tickTime=1", "Unrecognised parameter: tickTime"),
        ("server.1=a", "a does not have the form"),
        ("server.1=\\u12", "Malformed"),
    ],
)
def test_an_error_in_the_dynamic_file_names_that_file(line: str, wording: str, tmp_path: Path) -> None:
    dynamic = tmp_path / "zoo.cfg.dynamic"
    dynamic.write_text(f"server.2=b:1:2\n{line}\n")
    file = write_zoo_cfg(tmp_path, LEAST + "dynamicConfigFile=DIR/zoo.cfg.dynamic")

    with pytest.raises(ConfigError) as caught:
        load_config(file, {})

    assert wording in str(caught.value)
    assert caught.value.place.file == str(dynamic)


WRITTEN = checked(ENSEMBLE.encode())


@pytest.mark.parametrize(
    ("content", "wording"),
    [
        (WRITTEN.replace(b"server.2", b"server.1"), "not those that the server wrote"),
        (WRITTEN[: WRITTEN.index(b"server.2")], "not those that the server wrote"),
        (WRITTEN[:9], "not those that the server wrote"),
        (b"", "no members are listed"),
        (b"# nothing else\n", "no members are listed"),
    ],
)
def test_members_that_a_server_wrote_and_nobody_edited_are_refused_if_they_changed(
    content: bytes, wording: str, tmp_path: Path
) -> None:
    """With one member left, or none, it would serve alone."""
    dynamic = tmp_path / "zoo.cfg.dynamic.100000000"
    text = LEAST + "initLimit=10\nsyncLimit=5\ndynamicConfigFile=DIR/zoo.cfg.dynamic.100000000"
    file = write_zoo_cfg(tmp_path, text, my_id="1")
    for sound in (WRITTEN, WRITTEN.partition(b"\n")[2], WRITTEN.replace(b"\n", b"\r\n", 1)):
        dynamic.write_bytes(sound)
        assert len(load_config(file, {}).config.ensemble.members) == 3
    dynamic.write_bytes(content)
    with pytest.raises(ConfigError, match=wording) as caught:
        load_config(file, {})
    assert caught.value.place.file == str(dynamic)
    assert "copy the lines from a member that serves" in caught.value.remedy


@pytest.mark.parametrize("arguments", [["1"], [], ["1", "2", "3", "4", "5"]])
def test_the_direct_form_takes_two_to_four_arguments(arguments: list[str]) -> None:
    with pytest.raises(ConfigError, match="Invalid number of arguments") as caught:
        load_direct_form(arguments, {})

    assert (caught.value.summary, caught.value.exit_code) == (INVALID_ARGUMENTS, 2)


def test_a_bad_number_in_the_direct_form_is_an_invalid_argument(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='For input string: "x"') as caught:
        load_direct_form(["x", str(tmp_path)], {})

    assert caught.value.summary == INVALID_ARGUMENTS
