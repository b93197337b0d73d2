"""zkServer-initialize.sh: empties and makes a server's data directories, for a new member of an ensemble.

The file `initialize` in dataDir tells the server that it may start from nothing where it otherwise refuses to
(`db.autocreate=false`).
"""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from server.tools.zoo_cfg_lines import read_lines

USAGE = """\
usage: {script} <parameters>
  Optional parameters:
     -h                                                    Display this message
     --help                                                Display this message
     --configfile={config_file:<40} ZooKeeper config file
     --myid=#                                              Set the myid to be used, if any (1-255)
     --force                                               Force creation of the data/txnlog dirs"""


class Refused(Exception):
    """The message says why nothing was done."""


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run zkServer-initialize.sh with these arguments."""
    options = {"configfile": environ["ZOOCFG"], "myid": "", "force": ""}
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name == "--force" and not equals:
            options["force"] = "yes"
        elif name in ("--configfile", "--myid") and (value if equals else rest):
            options[name.removeprefix("--")] = value if equals else rest.pop(0)
        else:
            if name not in ("-h", "--help"):
                print(f"Unknown option: {name}{equals}{value}")
            print(USAGE.format(script=environ["TRIOKEEPER_SCRIPT"], config_file=environ["ZOOCFG"]))
            return 1
    try:
        initialize(options["configfile"], options["myid"], is_forced=bool(options["force"]))
    except Refused as reason:
        print(reason)
        return 1
    except OSError as problem:
        print(f"{problem.filename}: {problem.strerror}", file=sys.stderr)
        return 1
    return 0


def initialize(config_file: str, my_id: str, *, is_forced: bool) -> None:
    """Empty and make the directories that the configuration names."""
    if not os.path.exists(config_file):
        raise Refused(f"Unable to find config file at {config_file}")
    config = read_lines(Path(config_file).read_text(encoding="latin-1"))
    data_dir, log_dir = config.get("dataDir", ""), config.get("dataLogDir", "")
    if not data_dir:
        raise Refused(f"Unable to determine dataDir from {config_file}")
    directories = [("data", data_dir)] + ([("txnlog", log_dir)] if log_dir else [])
    if is_forced:
        print("Force enabled, data/txnlog directories will be re-initialized")
    else:
        refuse_existing(directories)
    for _, directory in directories:
        empty(Path(directory))
    if my_id:
        print(f"Using myid of {my_id}")
        Path(data_dir, "myid").write_text(f"{my_id}\n")
    else:
        print(f"No myid provided, be sure to specify it in {data_dir}/myid if using non-standalone")
    Path(data_dir, "initialize").touch()


def refuse_existing(directories: Sequence[tuple[str, str]]) -> None:
    for kind, directory in directories:
        if os.path.isdir(f"{directory}/version-2"):
            raise Refused(
                f"ZooKeeper {kind} directory already exists at {directory} "
                "(or use --force to force re-initialization)"
            )


def empty(directory: Path) -> None:
    """Remove the server's own files and nothing else: permissions of the directory itself stay."""
    (directory / "myid").unlink(missing_ok=True)
    version_dir = directory / "version-2"
    if version_dir.is_dir() and not version_dir.is_symlink():
        shutil.rmtree(version_dir)
    else:
        version_dir.unlink(missing_ok=True)  # a link goes, and what it leads to stays, as with `rm -r`
    version_dir.mkdir(parents=True)
