"""What a command of zkCli is: a name, a line of usage, options, and a function."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import attrs

from client.zkcli.context import Context
from client.zkcli.failures import CommandFailed
from client.zkcli.options import CommandLine, Options, help_lines, parse

Action: TypeAlias = Callable[[Context, CommandLine], Awaitable[None]]

_WATCH_WORD_AT = 2


@attrs.frozen
class Command:
    """One command. Arguments are counted with the name of the command as the first."""

    name: str
    usage: str
    action: Action
    options: Options | None = attrs.field(factory=Options)  # None: whatever follows is ignored
    arguments_min: int = 1
    arguments_max: int | None = None
    shows_options: bool = False  # with the usage
    old_form: str | None = None  # what is said about a third argument, which once meant something
    is_watch_old_form: bool = False  # it meant -w

    @property
    def usage_text(self) -> str:
        text = f"{self.name} {self.usage}"
        if not self.shows_options or self.options is None:
            return text
        return "\n".join([text, *help_lines(self.options), ""])

    async def run(self, context: Context, words: Sequence[str]) -> None:
        """Raise CommandFailed, JavaException, or what the session raises."""
        await self.action(context, self._parse(context, words))

    def _parse(self, context: Context, words: Sequence[str]) -> CommandLine:
        if self.options is None:
            return CommandLine(list(words))
        line = parse(self.options, words)
        if len(line.arguments) < self.arguments_min:
            raise CommandFailed(self.usage_text)
        if self.arguments_max is not None and len(line.arguments) > self.arguments_max:
            raise CommandFailed(self.usage_text)
        if self.old_form is not None and len(line.arguments) > _WATCH_WORD_AT:
            context.console.err(self.old_form)
            line = parse(self.options, self._rewritten(words))
        return line

    def _rewritten(self, words: Sequence[str]) -> list[str]:
        """With -w for the third word, which is not the third argument if options stand before it."""
        rewritten = list(words)
        if self.is_watch_old_form:
            rewritten[_WATCH_WORD_AT] = "-w"
        return rewritten


def watch_old_form(name: str, better: str) -> str:
    """What is said about `name path watch`."""
    return f"'{name} path [watch]' has been deprecated. Please use '{better}' instead."
