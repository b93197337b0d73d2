"""Connect strings that are none, in Java's words."""

import pytest

from client.zkcli.connect_text import parse_servers
from client.zkcli.failures import JavaException


def test_servers() -> None:
    assert str(parse_servers("a, b:2182,[::1]:7,[::2]/app")) == "a:2181,b:2182,[::1]:7,[::2]:2181/app"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "java.lang.IllegalArgumentException: A HostProvider may not be empty!"),
        ("/a", "java.lang.IllegalArgumentException: A HostProvider may not be empty!"),
        ("a:x", 'java.lang.NumberFormatException: For input string: "x"'),
        ("a:65536", "java.lang.IllegalArgumentException: port out of range:65536"),
        ("a/b/", "java.lang.IllegalArgumentException: Path must not end with / character"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(JavaException) as raised:
        parse_servers(text)
    assert str(raised.value) == problem
