"""A server without a quorum that still answers reads, to clients that ask for no more.

Its sessions are local: nobody could agree on any other.
"""

from jute.errors import NotReadOnly
from jute.opcodes import OpCode
from server.client_protocol import ClientConnection
from server.client_sessions import Sessions
from server.pipeline import NoOutlet, Pipeline, ServerState
from server.standing import READ_ONLY

_SYNC = int(OpCode.SYNC)


class ReadOnlyPipeline(Pipeline):
    """Refuses everything that would need a leader."""

    def __init__(self, state: ServerState, local: Sessions) -> None:
        super().__init__(state, local, local, NoOutlet(), READ_ONLY)
        self.is_read_only = True

    def _suits(self, connection: ClientConnection, session_id: int) -> bool:
        """A session known to all would go on unheard by the others: its client must find one of them."""
        return connection.asks_read_only and session_id not in self.tree.session_timeouts_ms

    def open_session(self, connection: ClientConnection) -> None:
        """Where no session may be local there is none to be had. The original answers with half a frame."""
        if self.state.local_sessions:
            self._open_local(connection)
        else:
            connection.close()

    def _renew(self, connection: ClientConnection, session_id: int) -> None:
        connection.refuse()

    def submit(self, connection: ClientConnection, xid: int, op: int, body: bytes) -> None:
        raise NotReadOnly

    def sync(self, connection: ClientConnection, xid: int, path: bytes) -> None:
        connection.write_committed(xid, _SYNC, self.tree.last_zxid, NotReadOnly.code, b"", 0)

    def create_session_again(self, connection: ClientConnection, xid: int, body: bytes) -> None:
        raise NotReadOnly
