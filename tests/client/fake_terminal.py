"""A stream that says it is a terminal, and keeps what is written."""

import io


class FakeTerminal(io.StringIO):
    """Standard output or error as a person has it."""

    def isatty(self) -> bool:
        return True
