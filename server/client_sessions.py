"""Client sessions: ids, passwords, and the moment each one expires.

Pure: time comes in as milliseconds of a clock that never goes back. A session lives in a bucket that ends on
a multiple of the tick, and a whole bucket expires together: up to one tick after its timeout, never before
it.

Being heard costs one assignment (`session.heard_ms = now`): a session moves to its right bucket only when the
one it is in ends.
"""

from collections.abc import Container, Iterable, Iterator

from jute.errors import SessionExpired, UnknownSession

PASSWORD_BYTES = 16
REFUSED_PASSWORD = bytes(PASSWORD_BYTES)

_PASSWORD_SALT = 0xB3415C00
_RANDOM_MULTIPLIER = 0x5DEECE66D
_MASK48 = (1 << 48) - 1
_MASK64 = (1 << 64) - 1


def password_of(session_id: int) -> bytes:
    """The password of a session: a function of its id alone, the same on every server of an ensemble.

    It is the output of java.util.Random seeded with the id, so that Apache's servers agree with ours.
    """
    state = (session_id ^ _PASSWORD_SALT ^ _RANDOM_MULTIPLIER) & _MASK48
    words = []
    for _ in range(PASSWORD_BYTES // 4):
        state = (state * _RANDOM_MULTIPLIER + 0xB) & _MASK48
        words.append((state >> 16 & 0xFFFFFFFF).to_bytes(4, "little"))
    return b"".join(words)


def first_session_id(server_id: int, now_ms: int) -> int:
    """Where a server starts counting: its id in the top byte, 40 bits of the clock, 16 for the count."""
    base = (now_ms << 24 & _MASK64) >> 8 | (server_id << 56 & _MASK64)
    if base == 1 << 63:
        base += 1  # that number marks container nodes
    return base - (1 << 64) if base >> 63 else base


class Session:
    """One client's session, connected or not."""

    __slots__ = ("bucket_ms", "heard_ms", "id", "is_closing", "timeout_ms")

    def __init__(self, session_id: int, timeout_ms: int, heard_ms: int) -> None:
        self.id = session_id
        self.timeout_ms = timeout_ms
        self.heard_ms = heard_ms
        self.bucket_ms = 0
        self.is_closing = False


class Sessions:
    """The sessions this server decides about. `others` are the ids of those that somebody else does."""

    def __init__(self, tick_ms: int, next_id: int, others: Container[int] = ()) -> None:
        self._tick_ms = tick_ms
        self.next_id = next_id
        self._others = others
        self._buckets: dict[int, dict[Session, None]] = {}  # in the order they came: it is that of their end
        self.by_id: dict[int, Session] = {}

    def new_id(self) -> int:
        """One that no session has."""
        while self.next_id in self.by_id or self.next_id in self._others:
            self.next_id += 1
        session_id, self.next_id = self.next_id, self.next_id + 1
        return session_id

    def open(self, session_id: int, timeout_ms: int, now_ms: int) -> Session:
        """Start to track a session, new or known from disk, with its whole timeout ahead of it."""
        session = self.by_id.get(session_id)
        if session is None:
            session = self.by_id[session_id] = Session(session_id, timeout_ms, now_ms)
            self._enter_bucket(session)
        session.timeout_ms = timeout_ms
        session.heard_ms = now_ms
        if self._bucket_for(session) < session.bucket_ms:  # it came back with a shorter timeout
            self._leave_bucket(session)
            self._enter_bucket(session)
        return session

    def forget(self, session_id: int) -> None:
        session = self.by_id.pop(session_id, None)
        if session is not None:
            self._leave_bucket(session)

    def check(self, session_id: int) -> None:
        """Raise what a write of a session that is gone, or on its way out, is answered with."""
        session = self.by_id.get(session_id)
        if session is None:
            raise UnknownSession
        if session.is_closing:
            raise SessionExpired

    def check_global(self, session_id: int) -> None:
        """The same for a write that only a session known to all servers may ask for."""
        session = self.by_id.get(session_id)
        if session is None or session.is_closing:
            raise SessionExpired

    def is_alive(self, session_id: int) -> bool:
        session = self.by_id.get(session_id)
        return session is not None and not session.is_closing

    def mark_closing(self, session_id: int) -> None:
        session = self.by_id.get(session_id)
        if session is not None:
            session.is_closing = True

    def expire(self, now_ms: int) -> Iterable[Session]:
        """Empty the buckets that have ended: yields the sessions whose time is up, marked as closing, and
        those that were heard meanwhile, which are not."""
        for bucket_ms in sorted(ms for ms in self._buckets if ms <= now_ms):
            for session in self._buckets.pop(bucket_ms):
                if self.by_id.get(session.id) is not session:  # it has ended since this was begun
                    continue
                if self._bucket_for(session) > now_ms:
                    self._enter_bucket(session)
                    yield session
                elif not session.is_closing:
                    session.is_closing = True
                    yield session

    def next_expiry_ms(self) -> int | None:
        """When the earliest bucket ends."""
        return min(self._buckets, default=None)

    def by_expiry(self) -> Iterator[tuple[int, int]]:
        """When each session would expire now, and its id, for the dump word."""
        for session in list(self.by_id.values()):
            yield self._bucket_for(session), session.id

    def _enter_bucket(self, session: Session) -> None:
        session.bucket_ms = self._bucket_for(session)
        self._buckets.setdefault(session.bucket_ms, {})[session] = None

    def _leave_bucket(self, session: Session) -> None:
        bucket = self._buckets.get(session.bucket_ms)
        if bucket is not None:
            bucket.pop(session, None)

    def _bucket_for(self, session: Session) -> int:
        return ((session.heard_ms + session.timeout_ms) // self._tick_ms + 1) * self._tick_ms
