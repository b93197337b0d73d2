"""Files that commands read and write; a dash stands for standard input and output."""

import sys
from pathlib import Path

from client.shell.failures import CommandFailed

STANDARD = "-"


def is_there(name: str) -> bool:
    return name != STANDARD and Path(name).exists()


def read_bytes(name: str) -> bytes:
    return sys.stdin.buffer.read() if name == STANDARD else Path(name).read_bytes()


def read_text(name: str) -> str:
    try:
        return read_bytes(name).decode()
    except UnicodeDecodeError as problem:
        raise CommandFailed(f"{name}: no text: {problem}") from None


def write_bytes(name: str, data: bytes) -> None:
    """All of it or nothing: a file is replaced once the new one is complete, and keeps its permissions.

    What is no regular file, such as /dev/stdout or a pipe, is written to as it is.
    """
    if name == STANDARD:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    target = Path(name).resolve()  # a link stays one
    if target.exists() and not target.is_file():
        target.write_bytes(data)
        return
    written = target.with_name(f".{target.name}.writing")
    written.write_bytes(data)
    if target.exists():
        written.chmod(target.stat().st_mode)
    written.replace(target)
