"""What one learner has asked for and is not committed yet: the leader holds it, so it has a limit.

Learners hold back their own clients (globalOutstandingLimit). The leader cannot hold back a learner: the acks
it waits for come behind the requests, on the same connection. One that forwards far more than any server
would is let go instead.
"""

from collections import deque

BACKLOG_BYTES_MAX = 256 << 20
_REQUEST_OVERHEAD_BYTES = 1024  # of a request in flight, whatever it carries


class Backlog:
    """About how many bytes of memory the requests of a learner take up."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._batches: deque[tuple[int, int]] = deque()  # the last zxid of each, and its size

    def add(self, last_zxid: int, requests: int, body_bytes: int) -> None:
        """A batch of requests was proposed, or will be, up to this zxid."""
        size = requests * _REQUEST_OVERHEAD_BYTES + body_bytes
        self.size_bytes += size
        self._batches.append((last_zxid, size))

    def committed(self, zxid: int) -> None:
        while self._batches and self._batches[0][0] <= zxid:
            self.size_bytes -= self._batches.popleft()[1]
