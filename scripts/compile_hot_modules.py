"""The same sources with the hot modules compiled by mypyc, in a folder of their own: build/compiled.

The checkout itself stays pure Python, and is what tests and tools import unless they are told otherwise.
Whoever puts build/compiled first on PYTHONPATH gets the extension modules instead; nothing else differs, and
what is not compiled is the same file copied. The folder is made anew whenever a source, this list or Python
changes.

Two things that work in Python do not work compiled (mypyc 2.4). A slice of bytes whose end lies before its
start is an error there instead of being empty. And what librt reads overflows as a C integer does until it
has been assigned to an `int`.
"""

import compileall
import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
TARGET = CHECKOUT / "build" / "compiled"
PACKAGES = ("client", "eventlog", "jute", "persistence", "quorum", "server")

# What runs for every request. The shells stay as they are: a coroutine does not get faster by being compiled.
HOT_MODULES = (
    "persistence/log_format.py",
    "persistence/log_writer.py",
    "persistence/snapshot_format.py",
    "persistence/txn_log.py",
    "quorum/broadcast.py",
    "quorum/committed_log.py",
    "quorum/packets.py",
    "server/apply_txn.py",
    "server/changes.py",
    "server/client_fronts.py",
    "server/client_protocol.py",
    "server/client_sessions.py",
    "server/data_tree.py",
    "server/leading.py",
    "server/learning.py",
    "server/local_sessions.py",
    "server/loop_meter.py",
    "server/not_serving.py",
    "server/ordering.py",
    "server/paths.py",
    "server/pipeline.py",
    "server/prepare_txn.py",
    "server/read_only.py",
    "server/read_requests.py",
    "server/reads_meanwhile.py",
    "server/seats.py",
    "server/slices.py",
    "server/stored_tree.py",
    "server/summaries.py",
    "server/txns.py",
    "server/watches.py",
    "server/wire_reader.py",
    "server/write_requests.py",
)


STAMP = "made-from.sha256"
_SHOWN_CHARACTERS_MAX = 4000


class CompilerUnavailable(Exception):
    """There is nothing to compile with; the message says what is missing."""


class CompilationFailed(Exception):
    """A module could not be compiled; the message is the compiler's own."""


def compile_hot_modules(say: Callable[[str], object] = lambda _: None) -> Path:
    """The folder with the compiled server, made now unless it is there and up to date.

    Only one process at a time makes it; others wait. `say` hears what takes so long.
    """
    wanted = digest_of_sources()
    if is_made_from(wanted):
        return TARGET
    check_compiler()
    TARGET.parent.mkdir(exist_ok=True)
    with TARGET.with_name(f"{TARGET.name}.lock").open("w") as lock:
        say(f"compiling {len(HOT_MODULES)} modules into {TARGET}: a minute or two, once for these sources")
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_made_from(wanted):
            started = time.monotonic()
            make(wanted)
            say(f"compiled in {time.monotonic() - started:.0f} s")
    return TARGET


def is_made_from(digest: str) -> bool:
    stamp = TARGET / STAMP
    return stamp.exists() and stamp.read_text() == digest


def make(digest: str) -> None:
    unfinished = TARGET.with_name(f"{TARGET.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        for package in PACKAGES:
            shutil.copytree(
                CHECKOUT / package, unfinished / package, ignore=shutil.ignore_patterns("__pycache__")
            )
        build_extensions(unfinished)
        add_byte_code(unfinished)
        (unfinished / STAMP).write_text(digest)
        shutil.rmtree(TARGET, ignore_errors=True)
        unfinished.rename(TARGET)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def extension_modules(folder: Path) -> list[Path]:
    """The compiled modules, and the one at the top of the folder that they share."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    inside = [path for package in PACKAGES for path in (folder / package).rglob(f"*{suffix}")]
    return sorted([*folder.glob(f"*{suffix}"), *inside])


def digest_of_sources() -> str:
    digest = hashlib.sha256(f"{sys.version} {sysconfig.get_platform()}".encode())
    files = (path for package in PACKAGES for path in (CHECKOUT / package).rglob("*.*"))
    sources = [Path(__file__), *(path for path in files if path.suffix in (".py", ".sh", ".service"))]
    for path in sorted(sources):
        digest.update(str(path.relative_to(CHECKOUT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def check_compiler() -> None:
    """Raise CompilerUnavailable if something is missing that pip does not bring; says how to get it."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        raise CompilerUnavailable(
            f"no C compiler: {compiler} is not on the PATH; on Debian, apt-get install gcc"
        )
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.exists():
        raise CompilerUnavailable(f"no {header}: on Debian, apt-get install python3-dev")


def build_extensions(folder: Path) -> None:
    """In a process of its own, because setuptools works on the current folder and mypyc on global state.

    It is quiet unless it fails.
    """
    program = (
        "from mypyc.build import mypycify; from setuptools import setup; import sys; "
        "setup(name='triokeeper-hot-modules', packages=[], ext_modules=mypycify(sys.argv[3:]), "
        "script_args=sys.argv[1:3])"
    )
    mypy_options = ("--explicit-package-bases", "--python-executable", sys.executable)
    found_so_far = filter(None, [os.environ.get("PYTHONPATH")])  # an installer may keep the compiler there
    finished = subprocess.run(
        [sys.executable, "-c", program, "build_ext", "--inplace", *mypy_options, *HOT_MODULES],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *found_so_far])},
        capture_output=True,
        text=True,
    )
    if finished.returncode:
        said = (finished.stdout + finished.stderr).strip()[-_SHOWN_CHARACTERS_MAX:]
        raise CompilationFailed(
            said or f"the compiler ended with code {finished.returncode} and said nothing"
        )


def add_byte_code(folder: Path) -> None:
    """Compile what stays Python, once; else every start would, where PYTHONDONTWRITEBYTECODE is set."""
    compileall.compile_dir(folder, quiet=1, stripdir=str(folder), prependdir=str(TARGET))


if __name__ == "__main__":
    try:
        print(compile_hot_modules(say=partial(print, file=sys.stderr, flush=True)))
    except (CompilerUnavailable, CompilationFailed) as failure:
        sys.exit(f"not compiled: {failure}")
