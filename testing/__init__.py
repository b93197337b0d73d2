"""A real ZooKeeper server for test suites: started in a fraction of a second, in a process of its own.

    from triokeeper.testing import Server

    with Server() as server:
        client = KazooClient(hosts=server.hosts)

`Server` and `Ensemble` are plain objects that any thread and any event loop may use; the pytest plug-in
offers them as fixtures. Importing this package changes nothing in the process that does so: no signal
handler, no event loop, nothing on `sys.path`. It needs the standard library alone, and loads most of it when
it is used: the plug-in is part of every pytest run where Triokeeper is installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .ensemble import Ensemble as Ensemble
    from .errors import ServerError as ServerError
    from .server import Namespace as Namespace
    from .server import Server as Server
    from .server import Session as Session

__all__ = ["Ensemble", "Namespace", "Server", "ServerError", "Session"]

_HOMES = {
    "Ensemble": "ensemble",
    "Namespace": "server",
    "Server": "server",
    "ServerError": "errors",
    "Session": "server",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    return value
