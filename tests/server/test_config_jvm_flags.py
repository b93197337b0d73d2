"""Flags as ZooKeeper's start scripts would assemble them, without a shell."""

from pathlib import Path

import pytest

from server.jvm_flags import read_jvm_flags, source_assignments

ASSIGNMENTS = [
    ("A=b", {"A": "b"}),
    ("export A=b", {"A": "b"}),
    ("  export A='b c' # why", {"A": "b c"}),
    ('A="b $X ${X} ${NONE:-d} ${NONE}"', {"A": "b x x d "}),
    ("A='$X'", {"A": "$X"}),
    ('A="\\$X \\"q\\" \\\\"', {"A": '$X "q" \\'}),
    ("A=b\\ c", {"A": "b c"}),
    ("A=one'two'\"three\"", {"A": "onetwothree"}),
    ("A=a#b", {"A": "a#b"}),
    ("A=", {"A": ""}),
    ("A=1 B=$A; C=3", {"A": "1", "B": "1", "C": "3"}),
    ('X+=" more"', {"X": "x more"}),
    ('A="one \\\n two"', {"A": "one  two"}),
    ('A="one\ntwo"', {"A": "one\ntwo"}),
    ("# it's a comment\nA=1", {"A": "1"}),
    ("export X", {}),
    ("", {}),
]


@pytest.mark.parametrize(("text", "assigned"), ASSIGNMENTS)
def test_assignments_are_understood_as_a_shell_would(text: str, assigned: dict[str, str]) -> None:
    variables = {"X": "x"}

    assert source_assignments(text, variables) == []
    assert variables == {"X": "x"} | assigned


@pytest.mark.parametrize(
    "line", ["A=$(hostname)", "A=`hostname`", "if true; then", "echo hello", "A=1 | B=2", 'A="$1"', "A='open"]
)
def test_a_line_that_needs_a_shell_is_reported_and_changes_nothing(line: str) -> None:
    variables: dict[str, str] = {}

    assert source_assignments(f"\n{line}", variables) == [f"2: {line}"]
    assert variables == {}


def test_server_flags_come_before_general_ones_and_the_later_wins() -> None:
    environ = {"SERVER_JVMFLAGS": "-Da=server -Db=server -Xmx1g", "JVMFLAGS": "-Da=general"}

    flags = read_jvm_flags(environ, None)

    assert flags.properties == {"a": "general", "b": "server"}
    assert flags.jvm_only == ("-Xmx1g",)


def test_the_scripts_own_variables_become_properties() -> None:
    environ = {"ZOO_LOG_DIR": "/logs", "ZOO_DATADIR_AUTOCREATE_DISABLE": "1", "ZK_SERVER_HEAP": "512"}

    flags = read_jvm_flags(environ, None)

    assert flags.properties == {"zookeeper.log.dir": "/logs", "zookeeper.datadir.autocreate": "false"}
    assert flags.jvm_only == ("-Xmx512m",)


def test_java_env_is_read_after_zookeeper_env_and_sees_its_variables(tmp_path: Path) -> None:
    (tmp_path / "zookeeper-env.sh").write_text('SIZE=7\nJVMFLAGS="$JVMFLAGS -Da=1"\necho hi\n')
    (tmp_path / "java.env").write_text('export SERVER_JVMFLAGS="-Djute.maxbuffer=$SIZE"\n')

    flags = read_jvm_flags({"JVMFLAGS": "-Dold=0"}, tmp_path)

    assert flags.properties == {"jute.maxbuffer": "7", "old": "0", "a": "1"}
    assert flags.unread == (f"{tmp_path}/zookeeper-env.sh:3: echo hi",)


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    (tmp_path / "java.env").mkdir()

    assert read_jvm_flags({}, tmp_path).unread == (f"{tmp_path}/java.env: Is a directory",)


def test_files_that_a_script_has_sourced_are_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "java.env").write_text('JVMFLAGS="$JVMFLAGS -Da=2"\n')

    flags = read_jvm_flags({"JVMFLAGS": "-Da=1", "TRIOKEEPER_ENV_SOURCED": "yes"}, tmp_path)

    assert flags.properties == {"a": "1"}
    assert flags.unread == ()
