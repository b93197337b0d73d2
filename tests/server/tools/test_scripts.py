"""The installed scripts: the shell in front of `triokeeper scripts run`, and installing them."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from server.cli import main as command_line
from server.tools.installing import write_scripts
from server.tools.scripts import SCRIPTS, main
from tests.server.tools.script_environment import script_environment, write_config
from tests.server.tools.snapshot_files import write_snapshot

SHELLS = ["sh", "bash"]
# Stands in for `triokeeper`: shows its arguments and what the script has set.
SHOW = """#!/bin/sh
echo "$@"
env | grep -E "^(ZOO|TRIOKEEPER|JVMFLAGS|SERVER_JVMFLAGS|MINE)" | sort
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory, with a blank in its name, that holds bin/, conf/ and the command that stands in."""
    home = tmp_path / "my zookeeper"
    (home / "conf").mkdir(parents=True)
    command = home / "triokeeper"
    command.write_text(SHOW)
    command.chmod(0o755)
    write_scripts(str(home / "bin"), list(SCRIPTS), str(command))
    return home


def run(script: Path, *arguments: str, **environ: str) -> dict[str, str]:
    """What the stand-in showed: its arguments under the empty name, and the variables."""
    done = subprocess.run(
        [script, *arguments],
        env={"PATH": os.environ["PATH"]} | environ,
        check=True,
        capture_output=True,
        text=True,
    )
    first, *variables = done.stdout.splitlines()
    return {"": first} | dict(line.split("=", 1) for line in variables)


def test_every_script_runs_itself(home: Path) -> None:
    for name in SCRIPTS:
        script = home / "bin" / name
        shown = run(script, "a b", "c")

        assert shown[""] == f"scripts run {name} a b c"
        assert shown["TRIOKEEPER_SCRIPT"] == str(script)


def test_the_conf_directory_beside_bin_is_the_default(home: Path) -> None:
    shown = run(home / "bin" / "zkServer.sh", "status")

    assert shown["ZOOCFGDIR"] == f"{home}/bin/../conf"
    assert shown["ZOOCFG"] == f"{home}/bin/../conf/zoo.cfg"
    assert shown["ZOO_LOG_DIR"] == f"{home}/bin/../logs"


def test_without_one_it_is_etc_zookeeper(home: Path) -> None:
    (home / "conf").rmdir()

    assert run(home / "bin" / "zkServer.sh")["ZOOCFGDIR"] == f"{home}/bin/../etc/zookeeper"


def test_the_environment_and_then_the_option_choose_another(home: Path) -> None:
    script = home / "bin" / "zkServer.sh"

    assert run(script, "status", ZOOCFGDIR="/a", ZOOCFG="b.cfg")["ZOOCFG"] == "/a/b.cfg"
    assert run(script, "status", ZOOCFGDIR="/a", ZOOCFG="/b/c.cfg")["ZOOCFG"] == "/b/c.cfg"
    shown = run(script, "--config", "/c d", "status", ZOOCFGDIR="/a")
    assert (shown[""], shown["ZOOCFG"]) == ("scripts run zkServer.sh status", "/c d/zoo.cfg")


def test_environment_files_are_sourced_as_shell(home: Path) -> None:
    """Exported or not, with code around them, and in bash where there is one."""
    (home / "conf" / "zookeeper-env.sh").write_text("MINE=one\nZOO_LOG_DIR=/var/log/zk\n")
    (home / "conf" / "java.env").write_text(
        'if [ "$MINE" = one ]; then JVMFLAGS="-Da=$(echo b) $JVMFLAGS"; fi\nexport SERVER_JVMFLAGS=-Dc=d\n'
    )

    shown = run(home / "bin" / "zkServer.sh", JVMFLAGS="-Dgiven=1")

    assert shown["JVMFLAGS"] == "-Da=b -Dgiven=1"
    assert (shown["SERVER_JVMFLAGS"], shown["ZOO_LOG_DIR"]) == ("-Dc=d", "/var/log/zk")
    assert shown["TRIOKEEPER_ENV_SOURCED"] == "yes"


def test_a_conf_directory_may_look_like_an_option(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "-conf").mkdir()
    (home / "-conf" / "java.env").write_text("MINE=yes\n")
    monkeypatch.chdir(home)

    assert run(home / "bin" / "zkServer.sh", "--config", "-conf", "status")["MINE"] == "yes"


def test_a_script_may_be_linked_to(home: Path, tmp_path: Path) -> None:
    link = tmp_path / "zkServer.sh"
    link.symlink_to(home / "bin" / "zkServer.sh")

    assert run(link)["ZOOCFGDIR"] == f"{home}/bin/../conf"


def test_another_command_may_be_named(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho other\n")
    other.chmod(0o755)

    assert run(home / "bin" / "zkServer.sh", TRIOKEEPER=str(other)) == {"": "other"}


def test_a_machine_without_bash(home: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "dirname", "env", "grep", "sort"):
        (tools / name).symlink_to(shutil.which(name) or name)

    assert (
        run(home / "bin" / "zkServer.sh", "status", PATH=str(tools))[""] == "scripts run zkServer.sh status"
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_people_source_zk_env(home: Path, shell: str) -> None:
    """Its names are set for the script that sources it, and not handed on to what that script runs."""
    (home / "conf" / "java.env").write_text("MINE=one\n")
    source = shlex.quote(str(home / "bin" / "zkEnv.sh"))
    lines = [
        "set -eu",
        f". {source}",
        "for name in ZOOBINDIR ZOOKEEPER_PREFIX ZOOCFGDIR ZOOCFG ZOO_LOG_DIR JAVA CLASSPATH MINE; do",
        '  eval "echo $name=\\$$name"',
        "done",
        "env | grep -c ^ZOO || true",
    ]
    done = subprocess.run(
        [shell, "-c", "\n".join(lines)],
        env={"PATH": os.environ["PATH"]},
        check=True,
        capture_output=True,
        text=True,
    )

    assert done.stdout.splitlines() == [
        f"ZOOBINDIR={home}/bin",
        f"ZOOKEEPER_PREFIX={home}/bin/..",
        f"ZOOCFGDIR={home}/bin/../conf",
        f"ZOOCFG={home}/bin/../conf/zoo.cfg",
        f"ZOO_LOG_DIR={home}/bin/../logs",
        "JAVA=java",
        f"CLASSPATH={home}/bin/../conf:",
        "MINE=one",
        "0",
    ]


# -- triokeeper scripts


def test_install_writes_executable_files_for_the_command(tmp_path: Path) -> None:
    target = tmp_path / "a" / "bin"

    assert main(["install", str(target), "--command", "/opt/triokeeper", "zkServer.sh"]) == 0

    assert sorted(file.name for file in target.iterdir()) == ["zkEnv.sh", "zkServer.sh"]
    assert all(os.access(file, os.X_OK) for file in target.iterdir())
    assert "\ntriokeeper=/opt/triokeeper\n" in (target / "zkEnv.sh").read_text()


def test_install_without_names_writes_all(tmp_path: Path) -> None:
    assert main(["install", str(tmp_path)]) == 0
    assert {file.name for file in tmp_path.iterdir()} == {"zkEnv.sh", *SCRIPTS}


def test_install_into_a_place_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()

    assert main(["install", str(tmp_path / "file" / "bin")]) == 1
    assert "no scripts were installed" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["install", "/nowhere", "zkFoo.sh"], ["run", "zkFoo.sh"]])
def test_a_script_that_does_not_exist(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "there is no script zkFoo.sh; triokeeper scripts list names them" in capsys.readouterr().err


def test_run_needs_the_environment_of_the_scripts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRIOKEEPER_SCRIPT", raising=False)

    assert main(["run", "zkServer.sh", "status"]) == 2
    assert "zkServer.sh needs what zkEnv.sh sets" in capsys.readouterr().err


def test_list_and_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    assert capsys.readouterr().out.split() == ["zkEnv.sh", *SCRIPTS]
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: triokeeper scripts list\n")
    assert main(["install"]) == 2
    assert capsys.readouterr().err.startswith("Usage: triokeeper scripts list\n")


def test_triokeeper_help_knows_the_command() -> None:
    assert "scripts" in CliRunner().invoke(command_line, ["--help"]).output
    assert CliRunner().invoke(command_line, ["scripts", "list"]).output.startswith("zkEnv.sh\n")


def test_every_script_has_a_function_behind_it() -> None:
    for module, function in SCRIPTS.values():
        imported = __import__(module, fromlist=[function])
        assert callable(getattr(imported, function))


def test_a_status_imports_no_library(tmp_path: Path) -> None:
    """Probes run it every few seconds: what is imported is most of what it costs."""
    (tmp_path / "zoo.cfg").write_text(f"dataDir={tmp_path}\nclientPort=1\n")
    program = (
        "import sys; sys.argv = ['triokeeper', 'scripts', 'run', 'zkServer.sh', 'status']\n"
        "from server.command import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code, *sorted({name.split('.')[0] for name in sys.modules}))"
    )
    environ = {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TRIOKEEPER_SCRIPT": "zkServer.sh",
        "TRIOKEEPER": "triokeeper",
        "ZOOCFGDIR": str(tmp_path),
        "ZOOCFG": str(tmp_path / "zoo.cfg"),
        "ZOO_LOG_DIR": str(tmp_path),
    }

    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, check=True, capture_output=True, text=True
    )

    code, *modules = done.stdout.splitlines()[-1].split()
    assert code == "1"
    assert not set(modules) & {
        "click",
        "attr",
        "trio",
        "jute",
        "persistence",
        "pathlib",
        "subprocess",
    }


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    """As with any tool whose output goes to `head`."""
    (tmp_path / "snapshot.0").write_bytes(b"")
    program = (
        "import sys; from server.tools import scripts\n"
        "def endless(arguments, environ):\n"
        "    while True: print('line')\n"
        "scripts.zkFoo = endless\n"
        "scripts.SCRIPTS['zkFoo.sh'] = ('server.tools.scripts', 'zkFoo')\n"
        "sys.exit(scripts.main(['run', 'zkFoo.sh']))"
    )
    environ = {"PYTHONPATH": os.pathsep.join(sys.path), "TRIOKEEPER_SCRIPT": "zkFoo.sh"}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [(">&-", 0, ""), (">/dev/full", 1, "zkServer.sh: No space left on device\n"), ("2>&-", 0, "")],
)
def test_output_that_goes_nowhere(tmp_path: Path, redirection: str, code: int, said: str) -> None:
    program = "import sys; from server.tools.scripts import main; sys.exit(main(sys.argv[1:]))"
    environ = script_environment(tmp_path) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    write_config(tmp_path)
    command = shlex.join([sys.executable, "-c", program, "run", "zkServer.sh", "version"])

    done = subprocess.run(
        ["sh", "-c", f"{command} {redirection}"], env=environ, check=False, capture_output=True, text=True
    )

    assert (done.returncode, done.stderr.partition("zoo.cfg\n")[2]) == (code, said)


def test_what_a_terminal_cannot_show_is_no_error(tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path / "snapshot.1", {"/日本": b""})
    program = "import sys; from server.tools.scripts import main; sys.exit(main(sys.argv[1:]))"
    environ = {"PYTHONPATH": os.pathsep.join(sys.path), "TRIOKEEPER_SCRIPT": "x", "PYTHONIOENCODING": "ascii"}

    done = subprocess.run(
        [sys.executable, "-c", program, "run", "zkSnapShotToolkit.sh", snapshot],
        env=environ,
        check=True,
        capture_output=True,
        text=True,
    )

    assert "\n/??\n" in done.stdout
