"""What can go wrong between servers."""


class PeerError(Exception):
    """The other server said what it must not, or nothing at all. The connection to it ends."""


class CannotListen(Exception):
    """The election port cannot be bound, without which this server takes part in no election; or the quorum
    port, without which it is elected again and again and can lead nobody."""
