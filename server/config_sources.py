"""Everything a setting may come from, and what was noticed on the way."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from quorum.setting_text import BadValue
from server.config import Note
from server.config_error import ConfigError, Place
from server.config_notes import is_native
from server.jvm_flags import JvmFlags
from server.settings import Origin, Setting


@attrs.frozen
class Entry:
    """A value and the line (from 1) on which its key begins; no line if it does not come from a file."""

    value: str
    line: int | None = None


@attrs.frozen
class Sources:
    """The entries of a file, or standing in for one, and the flags; `notes` grows while they are read."""

    file: Path | None
    entries: Mapping[str, Entry]
    flags: JvmFlags
    notes: list[Note] = attrs.field(factory=list)

    @property
    def values(self) -> dict[str, str]:
        return {key: entry.value for key, entry in self.entries.items()}

    @property
    def properties(self) -> dict[str, str]:
        """The Java system properties that the original would have."""
        own = {f"zookeeper.{key}": value for key, value in self.values.items() if not is_native(key)}
        return {**self.flags.properties, **own}

    def text_of(self, setting: Setting) -> str | None:
        """The text that counts for a setting, or None if nobody set it."""
        flags = self.flags.properties
        if setting.origin is Origin.BARE_PROPERTY:
            return flags.get(setting.key)
        if setting.key in self.entries:
            return self.entries[setting.key].value
        if setting.origin is Origin.ZOO_CFG:
            return None
        unprefixed = flags.get(setting.or_property) if setting.or_property is not None else None
        return flags.get(f"zookeeper.{setting.key}", unprefixed)

    def warn(self, message: str) -> None:
        self.notes.append(Note("warning", message))

    def error(self, wording: str, remedy: str, key: str | None = None, **more: Any) -> ConfigError:
        """An error about the whole file, or about one key of it."""
        entry = self.entries.get(key) if key is not None else None
        place = Place(file=str(self.file) if self.file else None, line=entry.line if entry else None)
        value = entry.value if entry else None
        return ConfigError(wording=wording, remedy=remedy, key=key, value=value, place=place, **more)

    def error_from(self, problem: BadValue, key: str | None = None) -> ConfigError:
        return self.error(problem.wording, problem.remedy, key if key is not None else problem.key)
