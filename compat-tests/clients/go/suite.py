"""go-zookeeper/zk's own test suite, as released but for how it reads a date, with servers of either kind.

The suite starts its servers by `zkServer.sh start-foreground zoo.cfg` from the folder in ZOOKEEPER_BIN_PATH.
For Triokeeper that is a folder of its own scripts, for Apache ZooKeeper one with a script that starts Java.
"""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from clients.programs import build, copied, tool
from support.reference import find_reference
from support.servers import SMALL_FLAGS, Kind
from tools.installed_scripts import install_scripts

MODULE: Final = "github.com/go-zookeeper/zk"
VERSION: Final = "3.9.5"  # else it leaves out what older servers cannot do
SUITE_SECONDS_MAX: Final = 900
OLD_DATE, ANY_DATE = r"(\d\d/\d\d/\d\d\d\d ", r"([-/\d]{10} "
OLD_PARSER, ANY_PARSER = 'time.Parse("01/02/2006 15:04 MST", match[1])', "parseBuildTime(match[1])"
BUILD_TIME: Final = """
func parseBuildTime(text string) (time.Time, error) {
	if found, err := time.Parse("01/02/2006 15:04 MST", text); err == nil {
		return found, nil
	}
	return time.Parse("2006-01-02 15:04 MST", text)
}
"""
OUTCOMES: Final = ("pass", "fail", "skip")


def run_suite(kind: Kind, folder: Path, only: Iterable[str] = ()) -> dict[str, str]:
    """The outcome of each test by its name: pass, fail or skip. Raises ClientUnavailable.

    The folder is made for it. Without `only` all tests are run.
    """
    go = tool("go", "install Go, 1.21 or later")
    folder.mkdir()
    chosen = [f"-run=^({'|'.join(only)})$"] if only else []
    scripts = install_scripts(folder) if kind == "triokeeper" else _apache_scripts(folder)
    ended = subprocess.run(
        [go, "test", "-count=1", "-json", f"-timeout={SUITE_SECONDS_MAX}s", *chosen, "."],
        cwd=_sources(go, folder),
        env=os.environ | {"ZOOKEEPER_BIN_PATH": str(scripts), "ZK_VERSION": VERSION},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SUITE_SECONDS_MAX + 60,
        check=False,
        text=True,
    )
    told = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    outcomes = {
        each["Test"]: each["Action"] for each in told if "Test" in each and each["Action"] in OUTCOMES
    }
    assert outcomes, ended.stdout[-4000:]
    assert "panic: " not in ended.stdout, f"the suite did not come to its end: {ended.stdout[-4000:]}"
    return outcomes


def _sources(go: str, folder: Path) -> Path:
    """The released sources, with one change that lets the suite see that a server is up.

    It reads the date that stands in `srvr` only in a form that ZooKeeper no longer writes, so with a server
    of today, Apache's too, no test of it would ever begin. Changed, it reads both forms.
    """
    module = copied(Path(__file__).parent, "go-client")
    build([go, "mod", "download"], module)
    where = [go, "list", "-mod=mod", "-m", "-f", "{{.Dir}}", MODULE]
    found = subprocess.run(where, cwd=module, check=True, capture_output=True, text=True).stdout.strip()
    sources = folder / "zk"
    shutil.copytree(found, sources, copy_function=shutil.copyfile)
    sources.chmod(0o755)
    text = (sources / "flw.go").read_text()
    for old, new in ((OLD_DATE, ANY_DATE), (OLD_PARSER, ANY_PARSER)):
        assert old in text, f"{MODULE} reads dates in another way now"
        text = text.replace(old, new)
    (sources / "flw.go").write_text(text + BUILD_TIME)
    return sources


def _apache_scripts(folder: Path) -> Path:
    reference = find_reference()
    flags = (*SMALL_FLAGS, "-Dzookeeper.admin.enableServer=false")
    command = shlex.join([reference.java, "-cp", reference.class_path, *flags])
    script = folder / "zkServer.sh"
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    script.write_text(f'#!/bin/sh\nexec {command} $SERVER_JVMFLAGS {main} "$2"\n')
    script.chmod(0o755)
    return folder
