"""What can go wrong between servers. None of it is fatal: a connection ends, or a role does."""


class PeerError(Exception):
    """The other server said what it must not, or nothing at all. The connection to it ends."""


class RoleEnded(Exception):
    """This server can no longer lead, follow or observe as it did: it looks for a leader again."""
