"""zkTxnLogToolkit.sh: prints a transaction log, repairs checksums in a copy of it, or copies its beginning.

Entries are read as ZooKeeper's tool reads them: a wrong checksum is reported and reading goes on, so that
what stands behind it can be seen. `triokeeper log inspect` is the stricter reader.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from struct import Struct
from typing import BinaryIO
from zlib import adler32

import attrs

from jute.record import DecodeError
from persistence.log_format import (
    FILE_HEADER,
    PAYLOAD_BYTES_MAX,
    encode_entries,
    without_marks,
    zxid_of,
)
from server.tools.java_options import Option, OptionError, parse, usage
from server.tools.txn_text import txn_line

SYNOPSIS = "TxnLogToolkit [-dhrvc] <txn_log_file_name> (-z <zxid>)"
OPTIONS = [
    Option("h", "help", "Print this message"),
    Option("r", "recover", "Write a copy in which the checksums of broken entries are right."),
    Option("v", "verbose", "With -r: print all entries, not only those that were repaired."),
    Option("d", "dump", "Print all entries with what they hold (default)"),
    Option("y", "yes", "With -r: repair every checksum without asking"),
    Option("c", "chop", "Write a copy that ends with the transaction given by -z."),
    Option("z", "zxid", "With -c: the last zxid to copy.", value="arg"),
]
EXIT_UNEXPECTED = 1
EXIT_INVALID = 2

_header = Struct(">4siq")
_entry_head = Struct(">Qi")
_LONG = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<hex>0[xX]|#)(?P<digits>[0-9a-fA-F]{1,16})|(?P<decimal>[0-9]{1,22}))"
)
_ZXID_MAX = (1 << 63) - 1


class ToolkitError(Exception):
    """The tool ends with this message and exit code."""

    def __init__(self, message: str, exit_code: int = EXIT_UNEXPECTED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def main(arguments: Sequence[str], _environ: Mapping[str, str]) -> int:
    """Run zkTxnLogToolkit.sh with these arguments."""
    try:
        parsed = parse(arguments, OPTIONS)
    except OptionError as problem:
        print(f"{problem}\n", file=sys.stderr)
        print(usage(SYNOPSIS, OPTIONS))
        return EXIT_UNEXPECTED
    if "h" in parsed.options or not parsed.words:
        print(usage(SYNOPSIS, OPTIONS))
        return 0 if "h" in parsed.options else EXIT_UNEXPECTED
    try:
        run(parsed.words[0], parsed.options)
    except (ToolkitError, DecodeError) as problem:
        sys.stdout.flush()
        print(problem, file=sys.stderr)
        return problem.exit_code if isinstance(problem, ToolkitError) else EXIT_UNEXPECTED
    except BrokenPipeError:
        raise
    except OSError as problem:
        print(f"{problem.filename} ({problem.strerror})", file=sys.stderr)
        return EXIT_UNEXPECTED
    return 0


def run(file: str, options: Mapping[str, str]) -> None:
    if not os.access(file, os.R_OK):
        raise ToolkitError(f"File doesn't exist or not readable: {file}")
    if "c" in options and "z" in options:
        chop(file, read_zxid(options["z"]))
    elif "r" in options:
        fixed = f"{file}.fixed"
        if os.path.exists(fixed):
            raise ToolkitError(f"Recovery file {fixed} already exists or not writable")
        recovery = Recovery(fix_all="y" in options, verbose="v" in options)
        with open(file, "rb") as source, open(fixed, "wb") as target:
            recovery.run(file, source, target)
        print(f"Recovery file {fixed} has been written with {recovery.fixed} fixed CRC error(s)")
    else:
        with open(file, "rb") as source:
            dump(file, source)


def read_zxid(text: str) -> int:
    """A number as Java's Long.decode takes it: decimal, hexadecimal behind 0x or #, octal behind 0."""
    match = _LONG.fullmatch(text)
    if match is None or match["sign"] == "-":
        raise _no_zxid(text)
    base = 16 if match["hex"] else 8 if match["decimal"].startswith("0") else 10
    try:
        zxid = int(match["digits"] or match["decimal"], base)
    except ValueError:
        raise ToolkitError(
            f"-z {text}: a number that begins with 0 is octal; write it as 0x1f or 31"
        ) from None
    if zxid > _ZXID_MAX:
        raise _no_zxid(text)
    return zxid


def _no_zxid(text: str) -> ToolkitError:
    return ToolkitError(f"-z {text}: not a zxid; write it as 0x1f or 31")


@attrs.frozen
class Entry:
    """One entry as it stands in the file; its end mark is empty if the file ends before it."""

    checksum: int
    payload: bytes
    end_mark: bytes

    @property
    def true_checksum(self) -> int:
        return adler32(self.payload)

    @property
    def encoded(self) -> bytes:
        return encode_entries([self.payload])

    def with_checksum(self, checksum: int) -> bytes:
        return _entry_head.pack(checksum, len(self.payload)) + self.payload + b"B"


def read_header(source: BinaryIO) -> bytes:
    """The file's header; ToolkitError if the file is too short for one."""
    header = source.read(len(FILE_HEADER))
    if len(header) < len(FILE_HEADER):
        raise ToolkitError("the file ends inside its header")
    return header


def print_header(header: bytes) -> None:
    _, version, dbid = _header.unpack(header)
    print(f"ZooKeeper Transactional Log File with dbid {dbid} txnlog format version {version}")


def read_entries(source: BinaryIO) -> Iterator[Entry]:
    """The entries up to the zeros behind them, or to an entry that is cut off."""
    while True:
        head = source.read(_entry_head.size)
        if len(head) < _entry_head.size:
            return
        checksum, length = _entry_head.unpack(head)
        if not 0 <= length <= PAYLOAD_BYTES_MAX:
            raise ToolkitError(f"Unreasonable length = {length}")
        payload = source.read(length)
        if not payload or len(payload) < length:
            return
        yield Entry(checksum, payload, source.read(1))


def dump(file: str, source: BinaryIO) -> None:
    """Print every entry; those with a wrong checksum twice, the first time marked."""
    check_magic(file, header := read_header(source))
    print_header(header)
    count = 0
    for entry in read_entries(source):
        if entry.checksum != entry.true_checksum:
            print_txn(entry, "CRC ERROR - ")
        print_txn(entry)
        check_end_mark(entry)
        count += 1
    print(f"EOF reached after {count} txns.")


def check_magic(file: str, header: bytes) -> None:
    if header[:4] != FILE_HEADER[:4]:
        raise ToolkitError(f"Invalid magic number for {os.path.basename(file)}", EXIT_INVALID)


def check_end_mark(entry: Entry) -> None:
    if entry.end_mark != b"B":
        raise ToolkitError("Last transaction was partial.")


def print_txn(entry: Entry, mark: str = "") -> None:
    sys.stdout.write(mark + txn_line(entry.payload, None))


# -- repairing


class Recovery:
    """A copy in the making, in which checksums are right where somebody wants them to be."""

    def __init__(self, *, fix_all: bool, verbose: bool) -> None:
        self.fixed = 0
        self._fix_all = fix_all
        self._verbose = verbose
        self._answer = answers(sys.stdin.readline)

    def run(self, file: str, source: BinaryIO, target: BinaryIO) -> None:
        check_magic(file, header := read_header(source))
        print_header(header)
        target.write(without_marks(header))
        count = 0
        for entry in read_entries(source):
            checksum = self._checksum_of(entry)
            if self._verbose:
                print_txn(entry)
            check_end_mark(entry)
            target.write(entry.with_checksum(checksum))
            count += 1
        print(f"EOF reached after {count} txns.")

    def _checksum_of(self, entry: Entry) -> int:
        """The checksum to write: as it was, or the right one."""
        if entry.checksum == entry.true_checksum:
            return entry.checksum
        print_txn(entry, "CRC FIXED - " if self._fix_all else "CRC ERROR - ")
        if not self._fix_all and not self._wants_it_fixed():
            return entry.checksum
        self.fixed += 1
        return entry.true_checksum

    def _wants_it_fixed(self) -> bool:
        while True:
            print("Would you like to fix it (Yes/No/Abort) ? ", end="", flush=True)
            answer = next(self._answer, None)
            if answer is None:
                raise ToolkitError(
                    "The input ended before an answer: give Yes, No or Abort, or the option -y"
                )
            match answer[0].upper():
                case "Y":
                    return True
                case "N":
                    return False
                case "A":
                    raise ToolkitError("Recovery aborted.", 0)


def answers(read_line: Callable[[], str]) -> Iterator[str]:
    """The words of the input."""
    while line := read_line():
        yield from line.split()


# -- chopping


class ChopError(Exception):
    """The copy is not what was wanted; the tool says so and ends with exit code 0, like the original."""


def chop(file: str, zxid: int) -> None:
    """Copy the entries up to and including `zxid` to a file beside the log."""
    with open(file, "rb") as source, open(f"{file}.chopped{zxid}", "wb") as target:
        try:
            copy_up_to(zxid, file, source, target)
        except (ChopError, DecodeError, ToolkitError) as problem:
            print(f"Got exception: {problem}")


def copy_up_to(zxid: int, file: str, source: BinaryIO, target: BinaryIO) -> None:
    failed = ChopError(f"Failed to chop {os.path.basename(file)}")
    header = read_header(source)
    if header[:4] != FILE_HEADER[:4]:
        print("Invalid magic number in txn log file", file=sys.stderr)
        raise failed
    print_header(header)
    target.write(without_marks(header))
    count, previous, has_zxid = 0, -1, False
    for entry in read_entries(source):
        check_entry(entry)
        found = zxid_of(entry.payload)
        has_zxid = has_zxid or found == zxid
        print_gap(previous, found)
        previous = found
        if found > zxid:
            if count == 0 or not has_zxid:
                print(f"This log does not contain zxid {zxid:x}")
                raise failed
            print(f"Chopping at {zxid:x} new log has {count} records")
            return
        target.write(entry.encoded)
        count += 1
    print(f"EOF reached after {count} txns.")
    raise failed


def check_entry(entry: Entry) -> None:
    if entry.checksum != entry.true_checksum:
        raise ChopError(f"CRC doesn't match {entry.checksum} vs {entry.true_checksum}")
    txn_line(entry.payload, None)
    if entry.end_mark != b"B":
        if entry.end_mark:
            print("Last transaction was partial.")
        raise ChopError("Last transaction was partial." if entry.end_mark else "null")


def print_gap(previous: int, zxid: int) -> None:
    """Say so if transactions are missing in between: the next epoch begins with its counter at 1."""
    if previous == -1 or zxid == previous + 1:
        return
    if zxid >> 32 == previous >> 32:
        print(f"There is intra-epoch gap between {previous:x} and {zxid:x}")
    elif zxid & 0xFFFFFFFF != 1:
        print(f"There is inter-epoch gap between {previous:x} and {zxid:x}")
