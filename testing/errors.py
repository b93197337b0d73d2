"""What goes wrong with a server under test."""


class ServerError(Exception):
    """A server did not do what it was asked; the message ends with the last lines of its log."""
