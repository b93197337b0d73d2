"""Java programs on stock client libraries: fetched once by Maven, compiled once, run against any server.

    run_java("CuratorRecipes", server.host_port)

The programs are beside this file, with the pom that names their libraries.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.reference import ReferenceUnavailable, cache_dir_of, resolve_jars

SOURCES = Path(__file__).parent
POM = SOURCES / "pom.xml"
RUN_SECONDS_MAX = 300


def java_command(main_class: str, *arguments: str) -> list[str]:
    """The command line for a class of ours or of the libraries; raises ReferenceUnavailable."""
    java, javac = shutil.which("java"), shutil.which("javac")
    if java is None or javac is None:
        raise ReferenceUnavailable("no java and javac on the PATH: install a JDK, 11 or later")
    jars = resolve_jars(POM, cache_dir_of("java-clients", POM.read_bytes()))
    flags = ["-XX:TieredStopAtLevel=1", "-Xmx256m", "-Duser.timezone=UTC", "-Duser.language=en"]
    return [java, *flags, "-cp", f"{_compiled(javac, jars)}:{jars}/*", main_class, *arguments]


def run_java(main_class: str, *arguments: str, lines: Sequence[str] = ()) -> str:
    """Run it to its end with these lines to read; what it wrote, to both outputs in one."""
    ended = subprocess.run(
        java_command(main_class, *arguments),
        input="".join(f"{line}\n" for line in lines),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=RUN_SECONDS_MAX,
        check=False,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def _compiled(javac: str, jars: Path) -> Path:
    sources = sorted(SOURCES.glob("*.java"))
    content = b"".join(source.read_bytes() for source in sources)
    classes = cache_dir_of("java-classes", str(jars).encode() + content)
    if not (classes / "compiled").exists():
        command = [javac, "--release", "11", "-nowarn", "-d", str(classes), "-cp", f"{jars}/*"]
        compiled = subprocess.run([*command, *map(str, sources)], check=False, capture_output=True, text=True)
        assert compiled.returncode == 0, compiled.stderr
        (classes / "compiled").touch()
    return classes
