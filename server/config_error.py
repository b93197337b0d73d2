"""The one error that a wrong configuration raises.

Its text names the file, the line, the setting and the remedy, and holds the words Apache ZooKeeper uses for
the same mistake, because people and scripts search logs for those.
"""

import attrs

# The short lines for stderr, and the exit codes that belong to them.
INVALID_CONFIG = "Invalid config, exiting abnormally"
INVALID_ARGUMENTS = "Invalid arguments, exiting abnormally"
UNEXPECTED = "Unexpected exception, exiting abnormally"
EXIT_UNEXPECTED = 1
EXIT_INVALID_INVOCATION = 2


@attrs.frozen(kw_only=True)
class Place:
    """Where a setting stands: `line` counts from 1 in `file`; what came by environment has neither."""

    file: str | None = None
    line: int | None = None


@attrs.frozen(kw_only=True, slots=False)
class ConfigError(Exception):
    """A configuration this server cannot run with.

    `wording` is Apache's sentence, or ours where Apache has none. `summary` is the short line for stderr.
    """

    wording: str
    remedy: str
    key: str | None = None
    value: str | None = None
    place: Place = attrs.field(factory=Place)
    summary: str = INVALID_CONFIG
    exit_code: int = EXIT_INVALID_INVOCATION

    def __str__(self) -> str:
        where = [f"line {self.place.line}"] if self.place.line is not None else []
        if self.key is not None:
            where.append(self.key if self.value is None else f"{self.key}={self.value}")
        about = ", ".join(where)
        sentence = f"{about}: {self.wording}" if about else self.wording
        if self.place.file is not None:
            sentence = f"Error processing {self.place.file}: {sentence}"
        return f"{sentence}\n  Remedy: {self.remedy}"
