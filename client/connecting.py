"""TCP connections, with errors that say what is wrong in a few words."""

import os

import trio

from client.connect_string import host_port


async def open_tcp(host: str, port: int) -> trio.abc.Stream:
    """A connection. Raises OSError with the address and the reason."""
    try:
        return await trio.open_tcp_stream(host, port)
    except OSError as problem:
        raise ConnectionError(f"{host_port(host, port)}: {_reason(problem)}") from problem
    except UnicodeError as problem:
        raise ConnectionError(f"{host_port(host, port)}: no host can have this name") from problem


def _reason(problem: OSError) -> str:
    """Trio's error only counts the attempts: the reason stands behind it."""
    cause: BaseException | None = problem.__cause__ or problem
    if isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    if isinstance(cause, OSError):
        is_errno = cause.errno is not None and cause.errno > 0
        return os.strerror(cause.errno) if is_errno and cause.errno else cause.strerror or str(cause)
    return str(problem)
