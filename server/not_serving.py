"""A server between roles: there is no quorum, or it is being brought up to date.

Clients are let go as soon as they ask for a session; four-letter words are answered.
"""

from jute.client_records import ConnectRequest
from server.client_protocol import ClientConnection
from server.client_sessions import Sessions
from server.pipeline import NoOutlet, Pipeline, ServerState
from server.standing import FOLLOWER


class NotServingPipeline(Pipeline):
    """Nobody gets further than their connect request."""

    def __init__(self, state: ServerState, none: Sessions) -> None:
        super().__init__(state, none, none, NoOutlet(), FOLLOWER)
        self.is_serving = False

    def admits(self, connection: ClientConnection, request: ConnectRequest) -> bool:
        return False
