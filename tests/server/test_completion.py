"""Completion in real shells, as far as they are installed, and the answers that all of them get."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHELLS = ("bash", "zsh", "fish")
# Each asks its shell for what it would offer behind these words, one word a line.
ASK = {
    "bash": 'eval "$(triokeeper completion bash)"; COMP_WORDS=({words} ""); COMP_CWORD={count}; '
    '$(complete -p triokeeper | sed "s/.*-F //;s/ .*//") triokeeper; printf "%s\\n" "${{COMPREPLY[@]}}"',
    "fish": 'triokeeper completion fish | source; complete --do-complete "{words} "',
}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A shell that finds `triokeeper` of this checkout."""
    command = tmp_path / "bin" / "triokeeper"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nfrom server.command import main\nmain()\n")
    command.chmod(0o755)
    return os.environ | {
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
    }


def offered(environ: dict[str, str], line: str, shell: str = "bash") -> str:
    """What the command answers a shell that asks how the line goes on."""
    words = line.split(" ")
    asking = {
        "_TRIOKEEPER_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": words[-1] if shell == "fish" else str(len(words) - 1),
    }
    done = subprocess.run(
        ["triokeeper"], env=environ | asking, capture_output=True, text=True, check=True, timeout=30
    )
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_options_and_files_are_offered(shell: str, environ: dict[str, str]) -> None:
    assert "status" in offered(environ, "triokeeper st", shell)
    assert "start" in offered(environ, "triokeeper st", shell)
    assert "--port" in offered(environ, "triokeeper start --", shell)
    assert "mirror" in offered(environ, "triokeeper cli mi", shell)
    assert "file" in offered(environ, "triokeeper start zo", shell)
    assert "dir" in offered(environ, "triokeeper start --data x", shell)


def test_what_only_tests_and_containers_run_is_not_offered(environ: dict[str, str]) -> None:
    commands = offered(environ, "triokeeper ")

    assert "plain,completion" in commands
    assert "for-tests" not in commands


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_a_real_shell_completes(shell: str, environ: dict[str, str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    ask = ASK[shell].format(words="triokeeper snapshot", count=2)

    done = subprocess.run([shell, "-c", ask], env=environ, capture_output=True, text=True, timeout=60)

    assert done.stdout.split()[0] == "inspect", done.stderr


def test_zsh_accepts_the_script_and_asks_the_command(environ: dict[str, str], tmp_path: Path) -> None:
    """The completion functions of zsh run only at a terminal; here they are replaced by ones that tell."""
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    program = """
compdef() { registered=$1 }
eval "$(triokeeper completion zsh)"
_describe() { print -l "${(@P)3}" }
words=(triokeeper snapshot '') CURRENT=3
$registered
"""
    done = subprocess.run(["zsh", "-fc", program], env=environ, capture_output=True, text=True, timeout=60)

    assert done.stdout.startswith("inspect:Write out a snapshot"), done.stderr


def test_an_unknown_shell_is_refused(environ: dict[str, str]) -> None:
    done = subprocess.run(["triokeeper", "completion", "tcsh"], env=environ, capture_output=True, text=True)

    assert done.returncode == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in done.stderr
