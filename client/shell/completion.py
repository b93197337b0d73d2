"""Lines with history and completion: prompt_toolkit, in a thread beside the sessions."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import trio
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.patch_stdout import patch_stdout

from client.errors import ServerError
from client.paths import InvalidPath, join
from client.shell.command_table import ALIASES, COMMANDS
from client.shell.terminal import Reader
from client.shell.trio_shell import TrioShell

COMPLETION_S_MAX = 2.0
WORDS = sorted([*COMMANDS, *ALIASES, "help", "quit", "exit"])


def prompting_reader(shell: TrioShell) -> Reader:
    prompts: PromptSession[str] = PromptSession(
        completer=ShellCompleter(shell), history=kept_history(), complete_while_typing=False
    )

    def read_in_thread(prompt: str) -> str:
        with patch_stdout(raw=True):
            return prompts.prompt(prompt, handle_sigint=False)

    async def read(prompt: str) -> str:
        return await trio.to_thread.run_sync(read_in_thread, prompt, abandon_on_cancel=True)

    return read


def kept_history() -> History:
    """Kept between shells, in the user's state directory, if that can be had."""
    try:
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        file = Path(base) / "triokeeper" / "cli_history"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.open("ab").close()
    except (OSError, RuntimeError):  # it cannot be written; or a user without a home
        return InMemoryHistory()
    return FileHistory(str(file))


class ShellCompleter(Completer):
    """The first word is a command; words that begin with / are paths."""

    def __init__(self, shell: TrioShell) -> None:
        self._shell = shell

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        word = document.text_before_cursor.split(" ")[-1]
        for text in candidates(document.text_before_cursor, self._children):
            yield Completion(text, start_position=-len(word))

    def _children(self, path: str) -> list[str]:
        return trio.from_thread.run(_children_or_none, self._shell, path)


def candidates(line: str, children_of: Callable[[str], list[str]]) -> list[str]:
    """What the last word of a line can become."""
    words = line.split(" ")
    if len(words) == 1:
        return [name for name in WORDS if name.startswith(words[0])]
    if not words[-1].startswith("/"):
        return []
    parent, _, beginning = words[-1].rpartition("/")
    parent = parent or "/"
    return [join(parent, child) for child in sorted(children_of(parent)) if child.startswith(beginning)]


async def _children_or_none(shell: TrioShell, path: str) -> list[str]:
    """A server that does not answer is no reason to stop typing."""
    session = shell.current_session
    if session is None or not session.state.is_connected:
        return []
    with trio.move_on_after(COMPLETION_S_MAX):
        try:
            return (await session.get_children(path))[0]
        except (ServerError, InvalidPath):
            return []
    return []
