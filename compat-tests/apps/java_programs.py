"""Java applications from Maven Central: their jars, and processes that are ended with a block."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from support.reference import ReferenceUnavailable, cache_dir_of, resolve_jars

LOG_CHARACTERS_MAX = 4000
TOOL_SECONDS_MAX = 800
HEAP = ("-Xmx512m", "-XX:TieredStopAtLevel=1")


@attrs.frozen
class JavaApp:
    """The jars of one application, fetched once."""

    java: str
    jars: Path
    flags: Sequence[str] = HEAP

    @classmethod
    def fetched(cls, name: str, pom: Path, flags: Sequence[str] = HEAP) -> "JavaApp":
        """Raises ReferenceUnavailable."""
        java = shutil.which("java")
        if java is None:
            raise ReferenceUnavailable("no java on the PATH: install a JDK, 11 or later")
        return cls(java, resolve_jars(pom, cache_dir_of(name, pom.read_bytes())), flags)

    def command(
        self,
        main: str | Path,
        *arguments: object,
        properties: Mapping[str, object],
        folder: Path | None = None,
    ) -> list[str]:
        """A class of the jars, or a source file that uses them. A folder comes first in the class path."""
        class_path = f"{self.jars}/*" if folder is None else f"{folder}:{self.jars}/*"
        settings = [f"-D{key}={value}" for key, value in properties.items()]
        return [self.java, *self.flags, *settings, "-cp", class_path, str(main), *map(str, arguments)]


@contextmanager
def running(command: Sequence[str], log: Path) -> Iterator[None]:
    """A process that must last as long as the block, and is killed at its end."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            yield
            assert process.poll() is None, f"it has ended: {end_of(log)}"
        finally:
            process.kill()
            process.wait()


def end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-LOG_CHARACTERS_MAX:]


def run_tool(command: Sequence[str]) -> str:
    """What a short-lived program says, with its exit code as the last line, or that it did not end."""
    try:
        ended = subprocess.run(
            command,
            check=False,
            timeout=TOOL_SECONDS_MAX,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace")
        return f"{said}\nit did not end within {TOOL_SECONDS_MAX} s"
    return f"{ended.stdout}\nexit code {ended.returncode}"
