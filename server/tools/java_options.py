"""Command lines as ZooKeeper's tools take them apart, with the same messages (Commons CLI's rules). Pure.

-l FILE  -lFILE  -l=FILE  --left FILE  --left=FILE  --le FILE  -left FILE  -di (two flags)  -- (only words)
"""

from collections.abc import Mapping, Sequence

import attrs

_HELP_GAP = 3


class OptionError(Exception):
    """The command line makes no sense; the message is the one that the tools print."""


@attrs.frozen
class Option:
    """One option; `value` names what it takes, if it takes anything."""

    letter: str
    name: str
    description: str
    value: str = ""
    is_required: bool = False

    @property
    def shown(self) -> str:
        return f"-{self.letter},--{self.name}" + (f" <{self.value}>" if self.value else "")


@attrs.frozen
class Parsed:
    """The options given, by letter (flags with an empty value), and the other words."""

    options: Mapping[str, str]
    words: Sequence[str]


def usage(synopsis: str, options: Sequence[Option]) -> str:
    """The help text: a line for each option, sorted by letter."""
    width = max(len(option.shown) for option in options) + _HELP_GAP
    lines = [f" {option.shown:<{width}}{option.description}" for option in sorted(options, key=_by_letter)]
    return "\n".join([f"usage: {synopsis}", *lines])


def _by_letter(option: Option) -> str:
    return option.letter


def parse(arguments: Sequence[str], options: Sequence[Option]) -> Parsed:
    """Take a command line apart; OptionError if it cannot be."""
    parsing = _Parsing(options)
    for number, argument in enumerate(arguments):
        if argument == "--":
            parsing.words += arguments[number + 1 :]
            break
        parsing.take(argument)
    parsing.check_complete()
    return Parsed(parsing.given, parsing.words)


class _Parsing:
    """How far a command line has been read; `waiting` is the option whose value comes next."""

    def __init__(self, options: Sequence[Option]) -> None:
        self.given: dict[str, str] = {}
        self.words: list[str] = []
        self.waiting: Option | None = None
        self._options = options
        self._by_letter = {option.letter: option for option in options}

    def take(self, argument: str) -> None:
        if self.waiting is not None and not self._looks_like_an_option(argument):
            self._give_value(_without_quotes(argument))
        elif argument.startswith("--") and len(argument) > 2:
            self._take_long(argument)
        elif argument.startswith("-") and len(argument) > 1:
            self._take_short(argument)
        else:
            self.words.append(argument)

    def check_complete(self) -> None:
        """Every option has its value, and all that must be there are."""
        self._check_not_waiting()
        missing = [
            option.letter
            for option in self._options
            if option.is_required and option.letter not in self.given
        ]
        if missing:
            plural = "s" if len(missing) > 1 else ""
            raise OptionError(f"Missing required option{plural}: {', '.join(missing)}")

    def _check_not_waiting(self) -> None:
        if self.waiting is not None:
            raise OptionError(f"Missing argument for option: {self.waiting.letter}")

    def _looks_like_an_option(self, argument: str) -> bool:
        """Whether it begins as one of the options does, rather than being a value with a dash in front."""
        name = argument.partition("=")[0]
        if not name.startswith("-") or len(name) < 2 or _is_number(argument):
            return False
        return name[1] in self._by_letter or bool(self._long(name))

    def _long(self, argument: str) -> list[Option]:
        """The options whose name begins like this; the one that is called so, if there is one."""
        name = argument.lstrip("-")
        exact = [option for option in self._options if option.name == name]
        return exact or [option for option in self._options if option.name.startswith(name)]

    def _take_long(self, argument: str) -> None:
        name, equals, value = argument.partition("=")
        matching = self._long(name)
        if not matching:
            raise OptionError(f"Unrecognized option: {argument}")
        if len(matching) > 1:
            names = ", ".join(f"'{option.name}'" for option in matching)
            raise OptionError(f"Ambiguous option: '{name}'  (could be: {names})")
        if equals and not matching[0].value:
            raise OptionError(f"Unrecognized option: {argument}")
        self._give(matching[0])
        if equals:
            self._give_value(value)

    def _take_short(self, argument: str) -> None:
        name, equals, value = argument[1:].partition("=")
        option = self._by_letter.get(name)
        if option is not None and equals and option.value:
            self._give(option)
            self._give_value(value)
        elif option is not None and not equals:
            self._give(option)
        elif len(name) > 1 and self._long(name):
            self._take_long(argument)
        else:
            self._take_letters(argument)

    def _take_letters(self, argument: str) -> None:
        """Several flags in one word; behind an option with a value the rest of the word is that value."""
        for at, letter in enumerate(argument[1:], start=1):
            option = self._by_letter.get(letter)
            if option is None:
                raise OptionError(f"Unrecognized option: {argument}")
            self._give(option)
            if option.value:
                if argument[at + 1 :]:
                    self._give_value(argument[at + 1 :])
                return

    def _give(self, option: Option) -> None:
        self._check_not_waiting()
        self.given.setdefault(option.letter, "")
        self.waiting = option if option.value else None

    def _give_value(self, value: str) -> None:
        assert self.waiting is not None
        self.given[self.waiting.letter] = value
        self.waiting = None


def _without_quotes(value: str) -> str:
    """The value without a pair of quotes around it, unless there are more inside."""
    inner = value[1:-1]
    return inner if value == f'"{inner}"' and '"' not in inner else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
