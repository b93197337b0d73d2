"""Four-letter words: a question of four letters on the client port, answered with text until the end."""

import trio

ANSWER_BYTES_MAX = 16 * 1024 * 1024  # `cons` and `dump` of a busy server are long


async def four_letter_word(host: str, port: int, word: str, timeout_s: float) -> bytes:
    """The server's answer, empty if it closed without one. Raises OSError if there was no way to ask.

    TimeoutError, an OSError too, if it took too long.
    """
    answer = bytearray()
    try:
        with trio.fail_after(timeout_s):
            stream = await trio.open_tcp_stream(host, port)
            async with stream:
                await stream.send_all(word.encode())
                async for chunk in stream:
                    answer += chunk
                    if len(answer) > ANSWER_BYTES_MAX:
                        raise OSError(f"{host}:{port}: the answer to {word} does not end")
    except trio.TooSlowError:
        raise TimeoutError(f"{host}:{port}: no answer to {word} within {timeout_s:g} s") from None
    except trio.BrokenResourceError as broken:
        raise ConnectionError(f"{host}:{port}: the connection broke while {word} was answered") from broken
    return bytes(answer)
