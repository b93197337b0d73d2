"""`edit`: a node's data in the user's editor, written back only if nobody changed it meanwhile."""

import os
import shlex
import tempfile
from pathlib import Path

import click
import trio

from client.errors import BadVersion, ServerError
from client.shell.command_table import shell_command
from client.shell.failures import EXIT_USAGE, CommandFailed, failure_of
from client.shell.shell import Shell


@shell_command("edit")
@click.argument("path")
async def edit_command(shell: Shell, path: str) -> None:
    """Edit a node's data with VISUAL or EDITOR.

    If somebody changed the node meanwhile, nothing is written and your text stays in a file.
    """
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    session = await shell.session()
    data, stat = await session.get_data(path)
    file = _file_with(path, data or b"")
    try:
        done = await trio.run_process([*editor, str(file)], stdin=None, check=False)
    except OSError as problem:
        raise CommandFailed(f"cannot run {editor[0]}: {problem.strerror}; set EDITOR", EXIT_USAGE) from None
    if done.returncode != 0:
        if _content(file) == (data or b""):
            _remove(file)
            raise CommandFailed(f"{editor[0]} ended with exit code {done.returncode}: nothing was written")
        raise CommandFailed(
            f"{editor[0]} ended with exit code {done.returncode}: nothing was written; see {file}"
        )
    edited = _content(file)
    if edited == (data or b""):
        shell.note(f"{path}: unchanged")
    else:
        try:
            await session.set_data(path, edited, stat.version)
        except BadVersion:
            raise CommandFailed(f"{path}: somebody changed it meanwhile; your text is in {file}") from None
        except ServerError as error:
            failure = failure_of(error)
            raise CommandFailed(f"{failure}; your text is in {file}", failure.exit_code) from None
    _remove(file)


def _file_with(path: str, data: bytes) -> Path:
    """A file of its own directory, so that it can have the node's name: editors go by that."""
    file = Path(tempfile.mkdtemp(prefix="triokeeper-edit-")) / (path.rpartition("/")[2] or "root")
    file.write_bytes(data)
    return file


def _content(file: Path) -> bytes:
    return file.read_bytes()


def _remove(file: Path) -> None:
    file.unlink()
    file.parent.rmdir()
