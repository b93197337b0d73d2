"""Nodes as transactions on their way will leave them.

A transaction that was prepared here carries its changes (`Txn.changes`), so that applying it installs what
was prepared instead of computing it again.
"""

from typing import Final

FROM_TREE: Final = -1


class Change:
    """A node as it will be; `body` is None once it will be gone.

    `zxid` is that of the transaction that makes it so, or FROM_TREE while it is only a copy of what is.
    `creates` goes on beyond CREATES_MAX, where what is stored sticks: as long as it is pending, the original
    goes on with wrapped sequence numbers, and so do we. `digest` is what the node adds to `Preparer.digest`.
    While `is_stale`, `creates` and `children` are ahead of `body` and `digest`.

    Once a transaction carries it, a change is never altered: a later one of the same node is a new object.
    """

    __slots__ = ("acl", "body", "children", "creates", "digest", "is_stale", "owner", "path", "zxid")

    def __init__(
        self,
        path: bytes,
        zxid: int,
        body: bytes | None,
        creates: int,
        children: int,
        acl: bytes,
        owner: int,
        digest: int,
    ) -> None:
        self.path = path
        self.zxid = zxid
        self.body = body
        self.creates = creates
        self.children = children
        self.acl = acl
        self.owner = owner
        self.digest = digest
        self.is_stale = False
