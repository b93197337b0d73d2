"""The load generator, from Python: compiled at first use, run as a child process, its result read."""

import hashlib
import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs

from bench.workloads import Load

SOURCE = Path(__file__).with_name("loadgen.c")


class LoadgenUnavailable(Exception):
    """There is no load generator; the message says why and what would help."""


class LoadFailed(Exception):
    """A reply was wrong, or none came; the message is the generator's own."""


class Histogram(Counter[int]):
    """How many requests took how many nanoseconds."""

    def percentile_us(self, percent: float) -> float:
        wanted = self.total() * percent / 100
        seen = 0
        for ns in sorted(self):
            seen += self[ns]
            if seen >= wanted:
                return ns / 1000
        return 0.0


@attrs.frozen
class LoadResult:
    """What one run saw; `windows` follow each other from `started_at` (time.monotonic) on."""

    requests: int
    seconds: float
    elapsed_seconds: float
    server_cpu_seconds: float
    generator_cpu_seconds: float
    started_at: float
    window_seconds: float
    windows: Sequence[Histogram]

    @property
    def throughput(self) -> float:
        return self.requests / self.seconds if self.seconds else 0.0

    @property
    def server_cpu_us(self) -> float:
        return self.server_cpu_seconds / max(self.requests, 1) * 1e6

    @property
    def generator_share(self) -> float:
        """Of one core; near 1 the generator was the limit and the figure says little about the server."""
        return self.generator_cpu_seconds / self.elapsed_seconds

    @property
    def latencies(self) -> Histogram:
        return joined(self.windows)


def joined(windows: Iterable[Histogram]) -> Histogram:
    whole = Histogram()
    for window in windows:
        whole.update(window)
    return whole


def build_loadgen() -> Path:
    """The generator's program, compiled unless that was done before; its name carries the source's digest."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    program = base / "triokeeper" / f"loadgen-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]}"
    if program.exists():
        return program
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise LoadgenUnavailable("no C compiler (cc, gcc or clang) on the PATH: the load generator needs one")
    program.parent.mkdir(parents=True, exist_ok=True)
    unfinished = program.with_name(f"{program.name}.{os.getpid()}")
    compiled = subprocess.run(
        [compiler, "-O2", "-Wall", "-Wextra", "-o", str(unfinished), str(SOURCE)],
        capture_output=True,
        text=True,
    )
    if compiled.returncode:
        raise LoadgenUnavailable(f"{compiler} does not compile {SOURCE.name}: {compiled.stderr}")
    unfinished.rename(program)
    return program


def run_load(load: Load, port: int, **options: float) -> LoadResult:
    """Run the generator to its end, which it bounds itself; options are its own, such as seconds=2."""
    settings: dict[str, object] = {
        "op": load.op,
        "port": port,
        "connections": load.connections,
        "depth": load.depth,
        "bytes": load.bytes,
        **options,
    }
    arguments = [f"--{key.replace('_', '-')}={value}" for key, value in settings.items()]
    finished = subprocess.run([str(build_loadgen()), *arguments], capture_output=True, text=True)
    if finished.returncode:
        reason = finished.stderr.strip().removeprefix("loadgen: ")
        raise LoadFailed(reason or f"the generator ended with status {finished.returncode}")
    fields = json.loads(finished.stdout)
    windows = [Histogram(dict(window)) for window in fields.pop("windows")]
    return LoadResult(windows=windows, **fields)
