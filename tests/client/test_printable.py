"""Foreign text on a terminal."""

from client.printable import printable
from client.status.answers import parse_srvr


def test_control_characters_are_shown() -> None:
    assert printable("a\x1b]0;title\x07b\x9b2J\r\x7f") == r"a\x1b]0;title\x07b\x9b2J\x0d\x7f"


def test_ordinary_text_stays() -> None:
    assert printable("tab\tline\nümläut 漢 └──") == "tab\tline\nümläut 漢 └──"


def test_a_server_cannot_draw_on_the_screen() -> None:
    assert parse_srvr("Mode: \x1b[2J").mode == r"\x1b[2J"
