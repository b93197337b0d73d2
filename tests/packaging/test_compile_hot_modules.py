"""When the compiled server is built, and what a failed build leaves; with a compiler that only pretends."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from scripts import compile_hot_modules as compiling
from scripts.compile_hot_modules import CompilationFailed, CompilerUnavailable, compile_hot_modules

ROOT = Path(__file__).parents[2]


class Checkout:
    """A toy one; `built` has the text of its one module at each build."""

    def __init__(self, root: Path) -> None:
        self.module = root / "toy" / "module.py"
        self.module.parent.mkdir()
        self.module.write_text("x = 1\n")
        self.build = root / "build"
        self.built: list[str] = []
        self.failure: Exception | None = None
        self.said: list[str] = []

    def build_extensions(self, folder: Path) -> None:
        if self.failure is not None:
            raise self.failure
        self.built.append((folder / "toy" / "module.py").read_text())

    def compile(self) -> Path:
        return compile_hot_modules(say=self.said.append)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    checkout = Checkout(tmp_path)
    script = tmp_path / "script.py"
    script.touch()
    monkeypatch.setattr(compiling, "__file__", str(script))
    monkeypatch.setattr(compiling, "CHECKOUT", tmp_path)
    monkeypatch.setattr(compiling, "TARGET", checkout.build / "compiled")
    monkeypatch.setattr(compiling, "PACKAGES", ("toy",))
    monkeypatch.setattr(compiling, "check_compiler", lambda: None)
    monkeypatch.setattr(compiling, "build_extensions", checkout.build_extensions)
    return checkout


def test_it_is_built_once_and_says_so(checkout: Checkout) -> None:
    folder = checkout.compile()
    assert (folder / "toy" / "module.py").read_text() == "x = 1\n"
    started, finished = checkout.said
    assert started.startswith(f"compiling {len(compiling.HOT_MODULES)} modules into {folder}")
    assert finished.startswith("compiled in ")

    assert checkout.compile() == folder
    assert checkout.built == ["x = 1\n"]
    assert len(checkout.said) == 2


def test_it_is_built_again_when_a_source_changes(checkout: Checkout) -> None:
    checkout.compile()
    checkout.module.write_text("x = 2\n")

    checkout.compile()

    assert checkout.built == ["x = 1\n", "x = 2\n"]


@pytest.mark.parametrize("failure", [CompilationFailed("syntax"), KeyboardInterrupt()])
def test_a_build_that_fails_leaves_the_one_before(checkout: Checkout, failure: Exception) -> None:
    checkout.compile()
    checkout.module.write_text("x = 2\n")
    checkout.failure = failure

    with pytest.raises(type(failure)):
        checkout.compile()

    assert {path.name for path in checkout.build.iterdir()} == {"compiled", "compiled.lock"}
    assert (checkout.build / "compiled" / "toy" / "module.py").read_text() == "x = 1\n"


def test_two_at_once_build_once(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    builds, second_waits = threading.Event(), threading.Event()

    def build(folder: Path) -> None:
        builds.set()
        assert second_waits.wait(30)
        checkout.build_extensions(folder)

    monkeypatch.setattr(compiling, "build_extensions", build)
    first = threading.Thread(target=checkout.compile)
    first.start()
    assert builds.wait(30)
    second = threading.Thread(target=lambda: compile_hot_modules(say=lambda _: second_waits.set()))
    second.start()
    first.join(30)
    second.join(30)

    assert checkout.built == ["x = 1\n"]


@pytest.mark.parametrize("variable", ["PATH", "CC"])
def test_a_missing_compiler_is_named_with_its_remedy(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "/nowhere/cc")

    with pytest.raises(CompilerUnavailable, match=r"no C compiler: .* apt-get install gcc"):
        compiling.check_compiler()


RUN = """
import os, sys
from scripts import run_server
from scripts.compile_hot_modules import CompilationFailed, CompilerUnavailable

def compile_hot_modules(say):
    {outcome}

def become(program, arguments, environ):
    print("became", *arguments[1:], environ.get("PYTHONPATH"), flush=True)
    os._exit(0)

run_server.compile_hot_modules = compile_hot_modules
os.execve = become
run_server.main()
"""


def run_server(outcome: str, **environ: str) -> list[str]:
    """What `make run CONFIG='0 data'` prints, where compiling goes like this."""
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(outcome=outcome), "0", "data"],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.splitlines()


def test_the_compiled_server_is_run_where_it_can_be_had() -> None:
    assert run_server("return '/compiled'") == ["became -P -m triokeeper start 0 data /compiled"]
    assert run_server("return '/compiled'", PYTHONPATH="/mine") == [
        "became -P -m triokeeper start 0 data /compiled:/mine"
    ]


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        ("raise CompilerUnavailable('no C compiler: gcc')", "'no C compiler: gcc'"),
        ("raise CompilationFailed('a long story\\nerror: in the end\\n')", "error: in the end; make compile"),
        ("raise PermissionError(13, 'Permission denied', 'build')", "Permission denied"),
    ],
)
def test_else_the_pure_one_and_one_line_of_the_log_tells_why(outcome: str, told: str) -> None:
    warning, became = run_server(outcome, TRIOKEEPER_LOG="plain")

    assert became == "became -P -m triokeeper start 0 data None"
    assert " - WARN  " in warning
    assert "pure Python" in warning
    assert told in warning
    assert "remedy='make run again with a C compiler" in warning


def test_a_compiler_that_dies_without_a_word_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does that the system kills for want of memory."""
    monkeypatch.setattr(sys, "executable", "/bin/false")

    with pytest.raises(CompilationFailed, match="ended with code 1 and said nothing"):
        compiling.build_extensions(tmp_path)
