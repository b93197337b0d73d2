"""What ties a field of `ServerConfig` to the setting it comes from.

A field is declared once, with its key, its reader and its default (`config.py`); loading walks the fields and
asks each where its value may come from. There is no second list of keys to keep in step.
"""

import enum
from collections.abc import Callable
from typing import Any

import attrs

from server.config_values import strict_bool


class Origin(enum.Enum):
    """Where Apache looks for a setting, which decides both precedence and how a bad value is treated."""

    ZOO_CFG = enum.auto()  # parsed by Apache itself: only zoo.cfg counts, a bad value is an error
    PROPERTY = enum.auto()  # zoo.cfg's K, else -Dzookeeper.K: a bad value means the default
    BARE_PROPERTY = enum.auto()  # only -DK, without the prefix: cannot be set in zoo.cfg


@attrs.frozen
class Setting:
    """One key and how its text is read; `read` answers None where the text means "take the default".

    A number below `minimum` is raised to it, with a warning. `or_property` is asked when the key is not set.
    """

    key: str
    read: Callable[[str], Any]
    origin: Origin
    minimum: int | None = None
    or_property: str | None = None


SETTING = "setting"


def _field(setting: Setting, default: Any, *, secret: bool = False) -> Any:
    return attrs.field(default=default, repr=not secret, metadata={SETTING: setting})


def native(key: str, read: Callable[[str], Any], default: Any, *, minimum: int | None = None) -> Any:
    return _field(Setting(key, read, Origin.ZOO_CFG, minimum), default)


def native_bool(key: str, default: bool) -> Any:
    return native(key, strict_bool(key), default)


def prop(
    key: str,
    read: Callable[[str], Any],
    default: Any,
    *,
    minimum: int | None = None,
    or_property: str | None = None,
    secret: bool = False,
) -> Any:
    return _field(Setting(key, read, Origin.PROPERTY, minimum, or_property), default, secret=secret)


def bare(key: str, read: Callable[[str], Any], default: Any) -> Any:
    return _field(Setting(key, read, Origin.BARE_PROPERTY), default)


def from_self(compute: Callable[[Any], Any]) -> Any:
    """A default that follows from fields declared earlier."""
    return attrs.Factory(compute, takes_self=True)


def settings_of(config_class: type[attrs.AttrsInstance]) -> dict[str, Setting]:
    """The settings behind a class's fields, by the field's name."""
    return {
        field.name: field.metadata[SETTING]
        for field in attrs.fields(config_class)
        if SETTING in field.metadata
    }
