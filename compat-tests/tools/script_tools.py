"""The tools behind ZooKeeper's scripts, Apache's classes and ours, run side by side on the same files.

Each side works in its own copy of a folder, so that what a tool writes beside its input is compared too.
"""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from struct import unpack_from

import attrs

from support.reference import find_reference
from support.sample_data import authenticate, catalogue, open_as
from support.servers import SMALL_FLAGS, Kind, prepare_server
from support.super_user import SUPER, SUPER_DIGEST
from tools.script_recordings import QUIET_LOGBACK, base_environment

CLASSES = {
    "zkServer.sh": "version.VersionInfoMain",
    "zkTxnLogToolkit.sh": "server.persistence.TxnLogToolkit",
    "zkSnapShotToolkit.sh": "server.SnapshotFormatter",
    "zkSnapshotComparer.sh": "server.SnapshotComparer",
    "zkSnapshotRecursiveSummaryToolkit.sh": "server.SnapshotRecursiveSummary",
    "zkCleanup.sh": "server.PurgeTxnLog",
}
RUN_SECONDS_MAX = 60
FILE_HEADER_BYTES = 16
LOG_MAGIC = b"ZKLG"
DATABASE = slice(8, FILE_HEADER_BYTES)  # in a log's header
ENTRY_HEAD_BYTES = 12
ENTRIES_NEEDED = 6


@attrs.frozen
class Ended:
    """How a tool ended: what it wrote, made comparable, and its exit code."""

    out: list[str]
    err: list[str]
    exit_code: int


def write_data(kind: Kind, data_dir: Path) -> None:
    """Have a server fill a data directory with one of each: nodes, sessions, quotas, refused writes."""
    settings = {
        "snapCount": 200,
        "preAllocSize": 64,
        "extendedTypesEnabled": "true",
        "DigestAuthenticationProvider.superDigest": SUPER_DIGEST,
    }
    with prepare_server(kind, settings, data_dir=data_dir, jvm_flags=SMALL_FLAGS) as server:
        server.start()
        with open_as(SUPER, server.port) as client:
            authenticate(client)
            list(client.call_all(list(catalogue())))
        server.restart()
        server.kill9()


def write_damaged_files(folder: Path, log: Path, snapshot: Path) -> None:
    """Variants of a log and a snapshot that a tool may be given; see the names."""
    folder.mkdir()
    data = log.read_bytes()
    ends = entry_ends(data)
    third = ends[2]
    variants = {
        "log.bad-checksums": flipped(flipped(data, ends[1]), third),
        "log.bad-payload": flipped(data, third + ENTRY_HEAD_BYTES + 33),
        "log.cut-in-entry": data[: third + 20],
        "log.cut-before-end-mark": data[: ends[3] - 1],
        "log.cut-after-entry": data[:third],
        "log.no-end-mark": flipped(data, ends[3] - 1),
        "log.long-entry": data[: third + 8] + b"\x7f" + data[third + 9 :],
        "log.gap": data[:third] + data[ends[5] :],
        "log.header-only": data[:FILE_HEADER_BYTES],
        "log.cut-in-header": data[:10],
        "snapshot.7": snapshot.read_bytes(),
        "snapshot.other": snapshot.read_bytes()[:-200],
        "not-a-snapshot": b"hello",
    }
    for name, content in variants.items():
        (folder / name).write_bytes(content)


def entry_ends(log: bytes) -> list[int]:
    """The end of the header, then of each of the first entries: more than any variant needs."""
    ends = [FILE_HEADER_BYTES]
    for _ in range(ENTRIES_NEEDED):
        length = unpack_from(">i", log, ends[-1] + 8)[0]
        ends.append(ends[-1] + ENTRY_HEAD_BYTES + length + 1)
    return ends


def flipped(data: bytes, at: int) -> bytes:
    """The data with the last bit of a byte turned over; of a checksum, its first byte that counts."""
    at = at + 4 if at in entry_ends(data) else at
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def run_apaches(script: str, arguments: Sequence[str], folder: Path, typed: str = "") -> Ended:
    """The class that Apache's script runs, without the script."""
    reference = find_reference()
    (folder / "logback.xml").write_text(QUIET_LOGBACK)
    flags = [
        "-XX:TieredStopAtLevel=1",
        "-Duser.timezone=UTC",
        "-Dfile.encoding=UTF-8",
        f"-Dlogback.configurationFile={folder}/logback.xml",
    ]
    main_class = f"org.apache.zookeeper.{CLASSES[script]}"
    return _run([reference.java, *flags, "-cp", reference.class_path, main_class, *arguments], folder, typed)


def run_ours(scripts: Path, script: str, arguments: Sequence[str], folder: Path, typed: str = "") -> Ended:
    return _run([str(scripts / script), *arguments], folder, typed)


def _run(command: Sequence[str], folder: Path, typed: str) -> Ended:
    done = subprocess.run(
        command,
        cwd=folder,
        env=base_environment(folder) | {"TZ": "UTC"},
        input=typed.encode(),
        capture_output=True,
        timeout=RUN_SECONDS_MAX,
    )
    return Ended(_comparable(done.stdout, folder), _comparable(done.stderr, folder), done.returncode)


def _comparable(output: bytes, folder: Path) -> list[str]:
    """The lines without what differs from run to run, and options without what is said about them."""
    text = output.decode(errors="replace").replace(str(folder), "{folder}")
    text = re.sub(r"in \d+\.\d+ seconds", "in N seconds", text)
    text = re.sub(r'"timestamp":\d+', '"timestamp":N', text)
    text = re.sub(r"(?m)^( -\w,--\w+(?: <\w+>)? +).*$", r"\1...", text)
    text = re.sub(r"(?m)^(starting_node|max_depth): .*$", r"\1: ...", text)
    text = re.sub(r"version (\d\.\d\.\d) [-\d]+ [:\d]+ UTC", r"version \1 DATE", text)
    return text.splitlines()


def assert_same(ours: Ended, apaches: Ended) -> None:
    """Equal but for a Java stack trace, in whose place some message must stand."""
    assert ours.out == apaches.out
    if apaches.err and apaches.err[0].startswith("Exception in thread"):
        assert ours.err
        assert not ours.err[0].startswith("Traceback")
    else:
        assert ours.err == apaches.err
    assert ours.exit_code == apaches.exit_code


def copied(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def contents(folder: Path) -> dict[str, bytes]:
    """All files, without the zeros that Apache reserves behind a log."""
    return {
        str(file.relative_to(folder)): without_marks(file).rstrip(b"\0")
        for file in folder.rglob("*")
        if file.is_file() and file.name != "logback.xml"
    }


def without_marks(file: Path) -> bytes:
    """What a file holds; of a repaired or cut log without the part of its header that tells of our marks.

    Such a log has none. Apache's tool copies the header as it is, ours says so.
    """
    content = file.read_bytes()
    if file.suffix.startswith((".fixed", ".chopped")) and content.startswith(LOG_MAGIC):
        return content[: DATABASE.start] + bytes(8) + content[DATABASE.stop :]
    return content
