"""The names that variables have for keys."""

from collections import Counter

import pytest

from server.config_notes import SETTINGS
from server.container.config_lines import KNOWN_KEYS, Line, example_of, find_key, key_named, problem_with
from server.container.variables import is_yes
from server.zoo_cfg_syntax import read_properties


def test_no_two_keys_share_a_name() -> None:
    """Without dots, dashes, underscores and case, every key is still one of its own."""
    names = Counter(key.replace(".", "").replace("_", "").replace("-", "").lower() for key in KNOWN_KEYS)

    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("key", sorted(KNOWN_KEYS))
def test_every_known_key_has_a_variable(key: str) -> None:
    assert find_key(key.replace(".", "_")) == key
    assert find_key(key.replace(".", "_").upper()) == key


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("AUTOPURGE_SNAP_RETAIN_COUNT", "autopurge.snapRetainCount"),
        ("SERVER_12", "server.12"),
        ("AUTHPROVIDER_1", "authProvider.1"),
        ("weight.3", "weight.3"),
        ("fips_mode", "fips-mode"),
        ("not_a_Key", "not.a.Key"),
    ],
)
def test_a_name_stands_for_a_key(name: str, key: str) -> None:
    assert key_named(name) == key


@pytest.mark.parametrize("key", sorted(setting.key for setting in SETTINGS.values()))
def test_the_example_of_a_bad_value_is_a_good_one(key: str) -> None:
    assert problem_with(Line(key, example_of(key))) is None


def test_a_value_is_read_back_as_it_was() -> None:
    value = r"back\slash #1 = ü 🦓"

    entries = read_properties(Line("key", value).text.encode("ascii"))

    assert entries["key"].value == value


@pytest.mark.parametrize(("text", "expected"), [("Yes", True), ("TRUE", True), ("1", True), ("no", False)])
def test_switches_are_read_as_the_images_do(text: str, expected: bool) -> None:
    assert is_yes(text) == expected
