"""The compiled modules are really compiled, and behave as the sources do: the same tests pass on them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.compile_hot_modules import HOT_MODULES, CompilerUnavailable, compile_hot_modules

CHECKOUT = Path(__file__).resolve().parents[2]
TESTED = ("tests/server", "tests/persistence")


@pytest.fixture(scope="module")
def compiled() -> Path:
    try:
        return compile_hot_modules()
    except CompilerUnavailable as unavailable:
        pytest.skip(str(unavailable))


@pytest.mark.timeout(300)
def test_every_hot_module_is_an_extension_module(compiled: Path) -> None:
    names = [module.removesuffix(".py").replace("/", ".") for module in HOT_MODULES]
    program = f"import importlib; [print(importlib.import_module(name).__file__) for name in {names}]"
    files = run_python(compiled, "-c", program).split()

    for module, file in zip(HOT_MODULES, files, strict=True):
        assert Path(file).suffix == ".so"
        assert Path(file).is_relative_to((compiled / module).parent)


@pytest.mark.timeout(300)
def test_the_compiled_server_passes_the_servers_tests(compiled: Path) -> None:
    """Property tests and random conversations too: what compiling would change shows in the corners."""
    options = ("-q", "-p", "no:cacheprovider", "--override-ini", f"pythonpath={compiled} . compat-tests")
    run_python(compiled, "-m", "pytest", *options, *TESTED)


def test_make_run_runs_it(compiled: Path, tmp_path: Path) -> None:
    """The checkout itself, in which this runs, stays pure."""
    command = [sys.executable, "-m", "scripts.run_server", "0", str(tmp_path / "data")]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        serving = next(line for line in server.stdout if " serving on " in line)
        server.terminate()

    assert "(compiled) serving on" in serving


def run_python(code: Path, *arguments: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-P", *arguments],  # -P: nothing comes from the current folder
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": str(code)},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stdout[-4000:] + finished.stderr[-4000:]
    return finished.stdout
