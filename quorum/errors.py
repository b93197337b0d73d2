"""What can go wrong between servers."""


class PeerError(Exception):
    """The other server said what it must not, or nothing at all. The connection to it ends."""


class CannotListen(Exception):
    """The election port cannot be bound: without it this server takes part in no election."""
