"""Lines with history and completion: prompt_toolkit, in a thread beside the session."""

from collections.abc import Awaitable, Callable, Iterator

import trio
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.patch_stdout import patch_stdout

from client.errors import ServerError
from client.paths import InvalidPath, join
from client.zkcli.command_table import command_names
from client.zkcli.forms import java_sorted
from client.zkcli.shell import Shell

COMPLETION_S_MAX = 2.0


def fancy_reader(shell: Shell) -> Callable[[], Awaitable[str]]:
    """What reads a line. It raises EOFError at Ctrl-D and KeyboardInterrupt at Ctrl-C."""
    prompts: PromptSession[str] = PromptSession(completer=ShellCompleter(shell), complete_while_typing=False)

    def read_in_thread(prompt: str) -> str:
        with patch_stdout(raw=True):  # watch events appear above the line that is typed
            return prompts.prompt(prompt, handle_sigint=False)

    async def read() -> str:
        return await trio.to_thread.run_sync(read_in_thread, shell.prompt, abandon_on_cancel=True)

    return read


class ShellCompleter(Completer):
    """Completes what begins with / as a path, and everything else as a command, as Apache's zkCli does."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        words = document.text_before_cursor.split(" ")
        for text in candidates(words[-1], self._children):
            yield Completion(text, start_position=-len(words[-1]))

    def _children(self, path: str) -> list[str]:
        return trio.from_thread.run(_children_or_none, self._shell, path)


def candidates(word: str, children_of: Callable[[str], list[str]]) -> list[str]:
    """All that a word can be the beginning of."""
    if not word.startswith("/"):
        return [name for name in command_names() if name.startswith(word)]
    parent, _, beginning = word.rpartition("/")
    parent = parent or "/"
    return [join(parent, child) for child in java_sorted(children_of(parent)) if child.startswith(beginning)]


async def _children_or_none(shell: Shell, path: str) -> list[str]:
    with trio.move_on_after(COMPLETION_S_MAX):
        try:
            return (await shell.session.get_children(path))[0]
        except (ServerError, InvalidPath):
            return []
    return []
