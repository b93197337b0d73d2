"""Apache ZooKeeper's jars, at hand: fetched once by Maven, then only read from a cache.

`reference_pom.xml` beside this file says what is fetched and in which version. The cache folder's name has a
digest of it, so a changed pom is resolved again and an unchanged one never asks the network. Where Maven
Central cannot be reached, an installed Debian package `zookeeper` stands in; `Reference.version` tells which.

Starting and stopping is in `servers.py`.
"""

import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs

POM = Path(__file__).with_name("reference_pom.xml")
OLDER_POM = Path(__file__).with_name("older_servers_pom.xml")
DEBIAN_JAR = Path("/usr/share/java/zookeeper.jar")
OLDER_RELEASES = ("3.8.6", "3.7.2", "3.6.4", "3.5.10")
RESOLVE_SECONDS_MAX = 600

# The distribution logs INFO to standard output in this form; without a file logback would log DEBUG, too.
LOGBACK_XML = """\
<configuration>
  <appender name="CONSOLE" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{ISO8601} [myid:%X{myid}] - %-5p [%t:%C{1}@%L] - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="CONSOLE" /></root>
</configuration>
"""
LOG4J_PROPERTIES = """\
log4j.rootLogger=INFO, CONSOLE
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout
log4j.appender.CONSOLE.layout.ConversionPattern=%d{ISO8601} [myid:%X{myid}] - %-5p [%t:%C{1}@%L] - %m%n
"""


class ReferenceUnavailable(Exception):
    """The Java server cannot be run here; the message says why and what would help."""


@attrs.frozen
class Reference:
    """Everything needed to run the Java server: all of it exists on this machine."""

    version: str
    java: str
    class_path: str


def find_reference(older: str | None = None) -> Reference:
    """The Java server, fetched if this is the first time; raises ReferenceUnavailable.

    `older` names an earlier release than the one that everything is compared with.
    """
    found = _find_once(older)
    if isinstance(found, ReferenceUnavailable):
        raise found
    return found


@functools.cache
def _find_once(older: str | None) -> Reference | ReferenceUnavailable:
    """Looked for once per process: a failure takes Maven many seconds, and every test would ask again."""
    java = shutil.which("java")
    if java is None:
        return ReferenceUnavailable("no java on the PATH: install a Java runtime, 11 or later")
    if older is not None:
        return _find_older(java, older)
    try:
        jars = resolve_jars(POM, _cache_dir())
    except ReferenceUnavailable as unavailable:
        return _installed_by_debian(java) or unavailable
    return Reference(_version_wanted(), java, f"{_conf_dir(jars.parent)}:{jars}/*")


def _find_older(java: str, version: str) -> Reference | ReferenceUnavailable:
    cache = cache_dir_of(f"reference-{version}", OLDER_POM.read_bytes())
    try:
        jars = resolve_jars(OLDER_POM, cache, f"-Dzookeeper.version={version}")
    except ReferenceUnavailable as unavailable:
        return unavailable
    return Reference(version, java, f"{_conf_dir(cache)}:{jars}/*")


def _version_wanted() -> str:
    found = re.search(r"<zookeeper\.version>(.+?)<", POM.read_text())
    assert found, "the pom names the version"
    return found[1]


def _cache_dir() -> Path:
    return cache_dir_of(f"reference-{_version_wanted()}", POM.read_bytes())


def cache_dir_of(name: str, source: bytes) -> Path:
    """Where to keep what is made from the source: another source, another place."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "triokeeper" / f"{name}-{hashlib.sha256(source).hexdigest()[:8]}"


def resolve_jars(pom: Path, cache: Path, *properties: str) -> Path:
    """The folder of jars that a pom asks for. It appears by a rename: whoever sees it sees all of it."""
    jars = cache / "jars"
    if jars.is_dir():
        return jars
    mvn = shutil.which("mvn")
    if mvn is None:
        raise ReferenceUnavailable(f"no mvn on the PATH: install Maven to get ZooKeeper {_version_wanted()}")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        fetched = Path(scratch) / "jars"
        _copy_dependencies(mvn, pom, fetched, properties)
        try:
            fetched.rename(jars)
        except OSError:
            if not jars.is_dir():  # else another process was first, and brought the same
                raise
    return jars


def _copy_dependencies(mvn: str, pom: Path, target: Path, properties: Sequence[str]) -> None:
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={target}", "-DincludeScope=runtime"]
    try:
        subprocess.run(
            [mvn, "-B", "-q", "-f", str(pom), *goal, *properties],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=RESOLVE_SECONDS_MAX,
            check=True,
            text=True,
        )
    except subprocess.TimeoutExpired:
        raise ReferenceUnavailable(
            f"Maven did not fetch it within {RESOLVE_SECONDS_MAX // 60} minutes; try again, what came is kept"
        ) from None
    except subprocess.CalledProcessError as failed:
        errors = [line for line in failed.stdout.splitlines() if "ERROR" in line]
        raise ReferenceUnavailable(f"Maven could not fetch it: {' '.join(errors[:1])}") from None


def _installed_by_debian(java: str) -> Reference | None:
    if not DEBIAN_JAR.exists():
        return None
    version = DEBIAN_JAR.resolve().stem.removeprefix("zookeeper-")
    logging = "/usr/share/java/slf4j-log4j12.jar:/usr/share/java/log4j-1.2.jar"
    cache = _cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    return Reference(version, java, f"{_conf_dir(cache)}:{DEBIAN_JAR}:{logging}")


def _conf_dir(cache: Path) -> Path:
    """A folder for the class path that holds the logging set-up of either kind of installation."""
    conf = cache / "conf"
    conf.mkdir(exist_ok=True)
    for name, text in {"logback.xml": LOGBACK_XML, "log4j.properties": LOG4J_PROPERTIES}.items():
        if not (conf / name).exists():
            (conf / name).write_text(text)
    return conf
