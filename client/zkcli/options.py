"""The options of zkCli's commands, read as Apache Commons CLI 1.5 reads them.

Short options only, with or without a value: `-s`, `-sw`, `-v 5`, `-v5`, `-v=5`, before or behind other
arguments; `--` ends them. Names of several letters (`-add`) stand alone. The messages name the library's
exceptions, because zkCli prints them.
"""

from collections.abc import Sequence

import attrs

from client.zkcli.failures import CommandFailed

_PACKAGE = "org.apache.commons.cli"


@attrs.frozen
class Option:
    """One option that a command knows."""

    name: str
    description: str
    takes_value: bool = False


@attrs.frozen
class Options:
    """All options of a command; in a group at most one of them may be given."""

    options: tuple[Option, ...] = ()
    are_exclusive: bool = False
    is_one_needed: bool = False

    def find(self, name: str) -> Option | None:
        return next((option for option in self.options if option.name == name), None)


@attrs.define
class CommandLine:
    """A command's arguments, the first of which is its name, and the options it was given."""

    arguments: list[str] = attrs.field(factory=list)
    _values: dict[str, list[str]] = attrs.field(factory=dict)

    def has(self, name: str) -> bool:
        return name in self._values

    def value(self, name: str) -> str:
        """The value of an option that takes one and was given; the first one counts."""
        return self._values[name][0]


def parse(options: Options, tokens: Sequence[str]) -> CommandLine:
    """Raise CommandFailed if an option is unknown, lacks its value or may not be combined with another."""
    parsing = _Parsing(options)
    for token in tokens:
        parsing.take(token)
    parsing.finish()
    return parsing.line


def help_lines(options: Options) -> list[str]:
    """One line for each option, as the library's help has them."""
    names = {
        option.name: f" -{option.name}" + (" <arg>" if option.takes_value else "")
        for option in sorted(options.options, key=lambda option: option.name.lower())
    }
    width = max(map(len, names.values()))
    return [
        f"{shown:<{width}}   {option.description}"
        for name, shown in names.items()
        if (option := options.find(name)) is not None
    ]


class _Parsing:
    """The state of going through the tokens once."""

    def __init__(self, options: Options) -> None:
        self.line = CommandLine()
        self._options = options
        self._open: Option | None = None  # still without its value
        self._selected: str | None = None  # of the group
        self._are_options_over = False

    def take(self, token: str) -> None:
        if self._are_options_over:
            self.line.arguments.append(token)
        elif token == "--":
            self._are_options_over = True
        elif self._open is not None and self._is_value(token):
            self._give_value(_without_quotes(token))
        elif token.startswith("--"):
            raise _unrecognized(token)
        elif token.startswith("-") and token != "-":
            self._take_option(token)
        else:
            self.line.arguments.append(token)

    def finish(self) -> None:
        self._check_value_is_there()
        if self._options.is_one_needed and self._selected is None:
            known = ", ".join(f"-{option.name} {option.description}" for option in self._options.options)
            raise _problem("MissingOptionException", f"Missing required option: [{known}]")

    def _is_value(self, token: str) -> bool:
        """Whatever does not look like one of the options is a value; a number always is."""
        if not token.startswith("-") or token == "-":
            return True
        name = token[1:].partition("=")[0]
        is_option = bool(name) and bool(self._options.find(name) or self._options.find(name[0]))
        return not is_option or _is_number(token)

    def _take_option(self, token: str) -> None:
        name, equals, value = token[1:].partition("=")
        option = self._options.find(name)
        if not equals and option is not None:
            self._give_option(option)
        elif not equals:
            self._take_letters(token)
        elif len(name) == 1 and option is not None and option.takes_value:
            self._give_option(option)
            self._give_value(value)
        else:
            raise _unrecognized(token)

    def _take_letters(self, token: str) -> None:
        """Several options of one letter, the last of which may be followed by its value."""
        for at, letter in enumerate(token[1:], start=2):
            option = self._options.find(letter)
            if option is None:
                raise _unrecognized(token)
            self._give_option(option)
            if self._open is not None and token[at:]:
                self._give_value(token[at:])
                return

    def _give_option(self, option: Option) -> None:
        self._check_value_is_there()
        if self._options.are_exclusive:
            self._select(option)
        self.line._values.setdefault(option.name, [])
        self._open = option if option.takes_value else None

    def _give_value(self, value: str) -> None:
        assert self._open is not None
        self.line._values[self._open.name].append(value)
        self._open = None

    def _check_value_is_there(self) -> None:
        if self._open is not None:
            raise _problem("MissingArgumentException", f"Missing argument for option: {self._open.name}")

    def _select(self, option: Option) -> None:
        if self._selected not in (None, option.name):
            raise _problem(
                "AlreadySelectedException",
                f"The option '{option.name}' was specified but an option from this group has already been"
                f" selected: '{self._selected}'",
            )
        self._selected = option.name


def _without_quotes(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == '"' and '"' not in value[1:-1]:
        return value[1:-1]
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _unrecognized(token: str) -> CommandFailed:
    return _problem("UnrecognizedOptionException", f"Unrecognized option: {token}")


def _problem(kind: str, message: str) -> CommandFailed:
    return CommandFailed(f"{_PACKAGE}.{kind}: {message}")
