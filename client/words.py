"""Four-letter words: a question of four letters on the client port, answered with text until the end."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

from client.connecting import open_tcp

Connector: TypeAlias = Callable[[str, int], Awaitable[trio.abc.Stream]]

ANSWER_BYTES_MAX = 16 * 1024 * 1024  # `cons` and `dump` of a busy server are long


async def four_letter_word(
    host: str, port: int, word: str, timeout_s: float, connect: Connector = open_tcp
) -> bytes:
    """The server's answer, empty if it closed without one. Raises OSError if there was no way to ask.

    TimeoutError, an OSError too, if it took too long.
    """
    answer = bytearray()
    try:
        with trio.fail_after(timeout_s):
            stream = await connect(host, port)
            async with stream:
                await stream.send_all(word.encode())
                while chunk := await stream.receive_some():
                    answer += chunk
                    if len(answer) > ANSWER_BYTES_MAX:
                        raise OSError(f"{host}:{port}: the answer to {word} does not end")
    except trio.TooSlowError:
        raise TimeoutError(f"{host}:{port}: no answer to {word} within {timeout_s:g} s") from None
    except trio.BrokenResourceError as broken:
        raise ConnectionError(f"{host}:{port}: the connection broke while {word} was answered") from broken
    return bytes(answer)
