"""What can go wrong between servers."""


class PeerError(Exception):
    """The other server said what it must not, or nothing at all. The connection to it ends."""


class MembersNotSaved(PeerError):
    """New members were proposed, and this server cannot write them beside its configuration file. It must not
    acknowledge them, nor propose them: after a crash it would count quorums as if it had never heard of
    them."""


class CannotListen(Exception):
    """The election port cannot be bound, without which this server takes part in no election; or the quorum
    port, without which it is elected again and again and can lead nobody."""
