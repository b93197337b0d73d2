"""Foreign text on a terminal: control characters are shown, never obeyed.

A node's data, or what a server says, can hold escape sequences that hide text or even type commands.
Pipes and files get every byte as it is.
"""

import re

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and newline


def printable(text: str) -> str:
    """The text with control characters as \\x1b and the like."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
