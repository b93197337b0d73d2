"""zkTxnLogToolkit.sh: what it prints of each kind of transaction, and what it makes of damaged logs."""

import io
import os
from pathlib import Path

import pytest

from jute.client_records import Acl, Id
from jute.opcodes import OpCode
from jute.record import encode
from jute.txn_records import (
    CloseSessionTxn,
    CreateContainerTxn,
    CreateSessionTxn,
    CreateTtlTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    SetAclTxn,
    SetDataTxn,
    Txn,
    TxnDigest,
    TxnHeader,
    TxnRecord,
    encode_txn,
)
from persistence.log_format import FILE_HEADER, encode_entries
from server.tools.txn_log_toolkit import main, read_zxid

OPEN = (Acl(31, Id("world", "anyone")),)
TWO = (*OPEN, Acl(1, Id("digest", "a,b%}\n")))
TIME_MS = 1_794_784_808_000
HEAD = "11/15/26, 11:20:08 PM UTC session 0x1234 cxid 0x"
FIRST = "ZooKeeper Transactional Log File with dbid 0 txnlog format version 2\n"


def payload(zxid: int, type_: int, record: TxnRecord | None) -> bytes:
    return encode_txn(TxnHeader(0x1234, zxid & 0xFFFF, zxid, TIME_MS, type_), record, TxnDigest(2, 99))


PAYLOADS = [payload(zxid, OpCode.DELETE, DeleteTxn(f"/{zxid}")) for zxid in range(1, 6)]
LINES = [f"{HEAD}{zxid} zxid 0x{zxid} delete '/{zxid}\n" for zxid in range(1, 6)]
ENTRIES = [encode_entries([entry]) for entry in PAYLOADS]


def spoilt(entry: bytes) -> bytes:
    """The entry with a wrong checksum."""
    return entry[:7] + bytes([entry[7] ^ 1]) + entry[8:]


def write_log(folder: Path, entries: list[bytes], header: bytes = FILE_HEADER) -> Path:
    file = folder / "log.1"
    file.write_bytes(header + b"".join(entries) + bytes(50))
    return file


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments], {})
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("type_", "record", "text"),
    [
        (OpCode.CREATE_SESSION, CreateSessionTxn(30_000), "createSession 30000\n"),
        (
            OpCode.CREATE,
            CreateTxn("/a", b"hello", OPEN, False, 1),
            "create /a,hello,[31,s{'world,'anyone}\n],false,1\n",
        ),
        (
            OpCode.CREATE2,
            CreateTxn("/ä", None, TWO, True, -1),
            "create2 /ä,,[31,s{'world,'anyone}\n, 1,s{'digest,'a%2Cb%25%7D%0A}\n],true,-1\n",
        ),
        (
            OpCode.CREATE_TTL,
            CreateTtlTxn("/t", b"\xff", OPEN, 2, 5000),
            "createTTL /t,\ufffd,[31,s{'world,'anyone}\n],2,5000\n",
        ),
        (OpCode.CREATE_CONTAINER, CreateContainerTxn("/c", b"", None, 3), "createContainer /c,,null,3\n"),
        (OpCode.SET_DATA, SetDataTxn("/a", b"line\n", 7), "setData /a,line\n,7\n"),
        (OpCode.RECONFIG, SetDataTxn("/zookeeper/config", b"x", -1), "reconfig /zookeeper/config,x,-1\n"),
        (OpCode.DELETE_CONTAINER, DeleteTxn("/a,b"), "deleteContainer '/a%2Cb\n"),
        (
            OpCode.SET_ACL,
            SetAclTxn("/a", TWO, 1),
            "setACL '/a,v{s{31,s{'world,'anyone}},s{1,s{'digest,'a%2Cb%25%7D%0A}}},1\n",
        ),
        (OpCode.CLOSE_SESSION, CloseSessionTxn(("/e1", "/e2")), "closeSession v{'/e1,'/e2}\n"),
        (OpCode.CLOSE_SESSION, None, "closeSession \n"),
        (OpCode.ERROR, ErrorTxn(-101), "error -101\n"),
        (
            OpCode.MULTI,
            MultiTxn((Txn(OpCode.DELETE, encode(DeleteTxn("/a"))), Txn(77, b"x"), Txn(OpCode.CHECK, None))),
            "multi delete:\0\0\0\x02/a;unknown 77:x;check:\n",
        ),
        (OpCode.MULTI, MultiTxn(()), "multi \n"),
    ],
)
def test_each_kind_of_transaction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], type_: int, record: TxnRecord | None, text: str
) -> None:
    log = write_log(tmp_path, [encode_entries([payload(0x1F, type_, record)])])

    code, out, _ = run(capsys, log)

    assert out == f"{FIRST}{HEAD}1f zxid 0x1f {text}EOF reached after 1 txns.\n"
    assert code == 0


def test_numbers_below_zero_are_shown_by_their_bits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = encode_txn(TxnHeader(-2, -1, 1, 1 << 62, OpCode.ERROR), ErrorTxn(-1), None)

    _, out, _ = run(capsys, write_log(tmp_path, [encode_entries([entry])]))

    line = f"{1 << 62}ms session 0xfffffffffffffffe cxid 0xffffffffffffffff zxid 0x1 error -1"
    assert out.splitlines()[1] == line


def test_a_wrong_checksum_is_marked_and_reading_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_log(tmp_path, [ENTRIES[0], spoilt(ENTRIES[1]), ENTRIES[2]])

    code, out, _ = run(capsys, "-d", log)

    assert out == (f"{FIRST}{LINES[0]}CRC ERROR - {LINES[1]}{LINES[1]}{LINES[2]}EOF reached after 3 txns.\n")
    assert code == 0


@pytest.mark.parametrize("cut", [5, 20])
def test_an_entry_that_is_cut_off_ends_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cut: int
) -> None:
    log = tmp_path / "log.1"
    log.write_bytes(FILE_HEADER + ENTRIES[0] + ENTRIES[1][:cut])

    assert run(capsys, log) == (0, f"{FIRST}{LINES[0]}EOF reached after 1 txns.\n", "")


@pytest.mark.parametrize(
    ("content", "code", "problem"),
    [
        (FILE_HEADER + ENTRIES[0][:-1], 1, "Last transaction was partial.\n"),
        (FILE_HEADER + ENTRIES[0][:-1] + b"X", 1, "Last transaction was partial.\n"),
        (FILE_HEADER + b"\0" * 8 + b"\xff" * 8, 1, "Unreasonable length = -1\n"),
        (FILE_HEADER[:8], 1, "the file ends inside its header\n"),
        (b"ZKSN" + FILE_HEADER[4:], 2, "Invalid magic number for log.1\n"),
        (FILE_HEADER + encode_entries([payload(1, 77, ErrorTxn(0))]), 1, "no transaction has type 77\n"),
    ],
)
def test_what_is_no_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, code: int, problem: str
) -> None:
    (tmp_path / "log.1").write_bytes(content)

    ended, _, err = run(capsys, tmp_path / "log.1")

    assert (ended, err) == (code, problem)


def test_files_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, tmp_path / "no") == (1, "", f"File doesn't exist or not readable: {tmp_path}/no\n")
    assert run(capsys, tmp_path) == (1, "", f"{tmp_path} (Is a directory)\n")


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "-q")
    assert (code, err) == (1, "Unrecognized option: -q\n\n")
    assert out.startswith("usage: TxnLogToolkit [-dhrvc] <txn_log_file_name> (-z <zxid>)\n -c,--chop  ")
    assert run(capsys) == (1, out, "")
    assert run(capsys, "--help") == (0, out, "")


# -- repairing


def recover(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    log: Path,
    *options: str,
    typed: str = "",
) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    return run(capsys, "-r", *options, log)


def test_all_checksums_repaired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(tmp_path, [spoilt(ENTRIES[0]), ENTRIES[1], spoilt(ENTRIES[2])])

    code, out, _ = recover(capsys, monkeypatch, log, "-y")

    assert out == (
        f"{FIRST}CRC FIXED - {LINES[0]}CRC FIXED - {LINES[2]}EOF reached after 3 txns.\n"
        f"Recovery file {log}.fixed has been written with 2 fixed CRC error(s)\n"
    )
    assert Path(f"{log}.fixed").read_bytes() == FILE_HEADER + b"".join(ENTRIES[:3])
    assert code == 0


def test_each_checksum_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any word that begins like an answer is one; others are asked for again."""
    log = write_log(tmp_path, [spoilt(ENTRIES[0]), spoilt(ENTRIES[1])])
    question = "Would you like to fix it (Yes/No/Abort) ? "

    _, out, _ = recover(capsys, monkeypatch, log, "-v", typed="what nope\nYES\n")

    assert out == (
        f"{FIRST}CRC ERROR - {LINES[0]}{question}{question}{LINES[0]}"
        f"CRC ERROR - {LINES[1]}{question}{LINES[1]}EOF reached after 2 txns.\n"
        f"Recovery file {log}.fixed has been written with 1 fixed CRC error(s)\n"
    )
    assert Path(f"{log}.fixed").read_bytes() == FILE_HEADER + spoilt(ENTRIES[0]) + ENTRIES[1]


@pytest.mark.parametrize(
    ("typed", "code", "message"),
    [("a\n", 0, "Recovery aborted.\n"), ("", 1, "The input ended before an answer")],
)
def test_a_repair_may_be_given_up(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    code: int,
    message: str,
) -> None:
    log = write_log(tmp_path, [spoilt(ENTRIES[0])])

    ended, _, err = recover(capsys, monkeypatch, log, typed=typed)

    assert ended == code
    assert err.startswith(message)


def test_a_copy_that_exists_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_log(tmp_path, ENTRIES)
    (tmp_path / "log.1.fixed").touch()

    message = f"Recovery file {log}.fixed already exists or not writable\n"
    assert run(capsys, "-r", log) == (1, "", message)
    assert os.path.getsize(f"{log}.fixed") == 0


# -- chopping


def chop(capsys: pytest.CaptureFixture[str], log: Path, zxid: str = "3") -> tuple[int, list[str], bytes]:
    code, out, _ = run(capsys, "-c", "-z", zxid, log)
    assert out.startswith(FIRST) or "Got exception" in out
    return code, out.removeprefix(FIRST).splitlines(), Path(f"{log}.chopped{int(zxid, 0)}").read_bytes()


def test_a_copy_ends_with_the_zxid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_log(tmp_path, ENTRIES)

    code, lines, copy = chop(capsys, log, "0x3")

    assert lines == ["Chopping at 3 new log has 3 records"]
    assert copy == FILE_HEADER + b"".join(ENTRIES[:3])
    assert code == 0


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (ENTRIES[:3], ["EOF reached after 3 txns.", "Got exception: Failed to chop log.1"]),
        (ENTRIES[3:], ["This log does not contain zxid 3", "Got exception: Failed to chop log.1"]),
        (
            [ENTRIES[0], ENTRIES[3]],
            [
                "There is intra-epoch gap between 1 and 4",
                "This log does not contain zxid 3",
                "Got exception: Failed to chop log.1",
            ],
        ),
        (
            [ENTRIES[0][:-1] + b"X"],
            ["Last transaction was partial.", "Got exception: Last transaction was partial."],
        ),
        ([], ["EOF reached after 0 txns.", "Got exception: Failed to chop log.1"]),
    ],
)
def test_a_log_that_cannot_be_cut_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], entries: list[bytes], said: list[str]
) -> None:
    """The original tells of the failure on standard output, and ends with exit code 0."""
    code, lines, _ = chop(capsys, write_log(tmp_path, entries))

    assert lines == said
    assert code == 0


def test_a_wrong_checksum_stops_the_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, lines, copy = chop(capsys, write_log(tmp_path, [ENTRIES[0], spoilt(ENTRIES[1])]))

    assert lines[-1].startswith("Got exception: CRC doesn't match ")
    assert copy == FILE_HEADER + ENTRIES[0]


def test_only_the_first_zxid_of_an_epoch_may_follow_another_epoch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zxids = [1, (1 << 32) + 1, (2 << 32) + 2, (2 << 32) + 3]
    entries = [encode_entries([payload(zxid, OpCode.ERROR, ErrorTxn(0))]) for zxid in zxids]

    _, lines, _ = chop(capsys, write_log(tmp_path, entries), hex(zxids[2]))

    assert lines == [
        "There is inter-epoch gap between 100000001 and 200000002",
        "Chopping at 200000002 new log has 3 records",
    ]


def test_a_snapshot_is_not_chopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_log(tmp_path, ENTRIES, header=b"ZKSN" + FILE_HEADER[4:])

    assert run(capsys, "-c", "-z", "3", log) == (
        0,
        "Got exception: Failed to chop log.1\n",
        "Invalid magic number in txn log file\n",
    )


@pytest.mark.parametrize(("text", "zxid"), [("31", 31), ("0x1F", 31), ("#1f", 31), ("037", 31), ("0", 0)])
def test_a_zxid_may_be_written_as_java_reads_numbers(text: str, zxid: int) -> None:
    assert read_zxid(text) == zxid


@pytest.mark.parametrize(
    "text", ["9223372036854775808", "0x8000000000000000", "zz", "", "1f", "09", "-1", "-0x5"]
)
def test_a_zxid_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    code, out, err = run(capsys, "-c", f"--zxid={text}", write_log(tmp_path, ENTRIES))

    assert (code, out) == (1, "")
    assert err.startswith(f"-z {text}: ")
