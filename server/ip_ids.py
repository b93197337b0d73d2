"""Ids of the ip scheme: an address, or a network as address/bits; IPv4 and IPv6 never match each other."""

import re

# The original's rules for addresses are those of Java's parseInt: signs and leading zeros pass, zones do not.
_INTEGER = re.compile(r"([+-]?)(\d+)")
_HEX_GROUP = re.compile(r"[+-]?[0-9A-Fa-f]+")


def network_of(text: str) -> tuple[int, int, int] | None:
    """The network an ip id stands for, as the width of its addresses, how many bits count, and the bits."""
    host, slash, bits_text = text.partition("/")
    address = address_of(host)
    if address is None:
        return None
    width, number = address
    bits = _small_int(bits_text) if slash else width
    return None if bits is None or bits > width else (width, bits, number)


def address_of(text: str) -> tuple[int, int] | None:
    """An address as its width in bits and its number."""
    if ":" in text:
        return _ipv6(text)
    parts = [_small_int(part) for part in text.split(".")]
    if len(parts) != 4:
        return None
    number = 0
    for part in parts:
        if part is None or part > 255:
            return None
        number = number << 8 | part
    return 32, number


def _ipv6(text: str) -> tuple[int, int] | None:
    head, gap, tail = text.partition("::")
    before, after = (half.split(":") if half else [] for half in (head, tail))
    missing = 8 - len(before) - len(after)
    if missing < 1 if gap else missing != 0:
        return None
    number = 0
    for group in before + ["0"] * missing + after:
        if len(group) > 4 or not _HEX_GROUP.fullmatch(group):
            return None
        number = number << 16 | int(group, 16) & 0xFFFF
    return 128, number


def _small_int(text: str) -> int | None:
    """A number of up to three digits behind its zeros that is not negative."""
    if len(text) <= 3 and text.isascii() and text.isdigit():
        return int(text)
    match = _INTEGER.fullmatch(text)
    digits = match[2].lstrip("0") if match else ""
    if match is None or len(digits) > 3 or (digits and match[1] == "-"):
        return None
    return int(digits or "0")
