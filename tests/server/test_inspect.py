"""Dumps of logs and snapshots: complete where the file is sound, and as far as it goes where it is not."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jute.client_records import Acl, Id, StatPersisted
from jute.opcodes import OpCode
from jute.record import encode
from jute.txn_records import (
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    SetDataTxn,
    Txn,
    TxnDigest,
    TxnHeader,
    TxnRecord,
    encode_txn,
)
from persistence.file_names import Compression
from persistence.log_format import FILE_HEADER, encode_entries
from persistence.snapshot_compression import compressor
from persistence.snapshot_format import Acl as StoredAcl
from persistence.snapshot_format import Node, Session, file_chunks
from server.cli import main

OPEN = (Acl(31, Id("world", "anyone")),)
TIME_MS = 1_700_000_000_123


def payload(zxid: int, type_: OpCode, record: TxnRecord | None, digest: TxnDigest | None = None) -> bytes:
    return encode_txn(TxnHeader(0x1234, zxid, zxid, TIME_MS, type_), record, digest)


PAYLOADS = [
    payload(1, OpCode.CREATE_SESSION, CreateSessionTxn(30_000)),
    payload(2, OpCode.CREATE, CreateTxn("/a", b"hello", OPEN, False, 1), TxnDigest(2, 99)),
    payload(
        3,
        OpCode.MULTI,
        MultiTxn(
            (
                Txn(OpCode.DELETE, encode(DeleteTxn("/a"))),
                Txn(OpCode.SET_DATA, encode(SetDataTxn("/b", b"\0\xff", 2))),
            )
        ),
    ),
    payload(4, OpCode.ERROR, ErrorTxn(-101)),
    payload(5, OpCode.CLOSE_SESSION, None),
]
LOG_LINES = [
    "ZooKeeper Transactional Log File with dbid 0 txnlog format version 2",
    "2023-11-14T22:13:20.123Z session 0x1234 cxid 0x1 zxid 0x1 createSession timeout_ms=30000",
    "2023-11-14T22:13:20.123Z session 0x1234 cxid 0x2 zxid 0x2 create path=/a data='hello'"
    " acl=world:anyone:cdrwa ephemeral=false parent_cversion=1 digest=99",
    "2023-11-14T22:13:20.123Z session 0x1234 cxid 0x3 zxid 0x3 multi"
    " [delete path=/a; setData path=/b data=0x00ff version=2]",
    "2023-11-14T22:13:20.123Z session 0x1234 cxid 0x4 zxid 0x4 error err=-101",
    "2023-11-14T22:13:20.123Z session 0x1234 cxid 0x5 zxid 0x5 closeSession",
]


def write_log(directory: Path, entries: bytes) -> Path:
    file = directory / "log.1"
    file.write_bytes(FILE_HEADER + entries)
    return file


def inspect(kind: str, file: Path, *options: str) -> Result:
    return CliRunner().invoke(main, [kind, "inspect", str(file), *options], catch_exceptions=False)


def test_a_sound_log_is_written_out_whole(tmp_path: Path) -> None:
    result = inspect("log", write_log(tmp_path, encode_entries(PAYLOADS) + bytes(100)))

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [*LOG_LINES, "EOF reached after 5 txns."]


def test_a_log_in_json_is_one_object_for_each_transaction(tmp_path: Path) -> None:
    result = inspect("log", write_log(tmp_path, encode_entries(PAYLOADS)), "--json")

    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["zxid"] for line in lines] == ["0x1", "0x2", "0x3", "0x4", "0x5"]
    assert lines[1] == {
        "zxid": "0x2",
        "session": "0x1234",
        "cxid": 2,
        "time_ms": TIME_MS,
        "type": "create",
        "path": "/a",
        "data": "hello",
        "acl": "world:anyone:cdrwa",
        "ephemeral": False,
        "parent_cversion": 1,
        "digest": 99,
    }
    assert lines[2]["operations"] == [
        {"type": "delete", "path": "/a"},
        {"type": "setData", "path": "/b", "data_base64": "AP8=", "version": 2},
    ]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (
            lambda entries: entries[:-3],
            "an entry is cut off or its length is impossible, behind 4 sound ones",
        ),
        (
            lambda entries: entries[:-5] + b"?" + entries[-4:],
            "the checksum of an entry does not fit its bytes, behind 4 sound ones",
        ),
    ],
)
def test_a_damaged_log_is_shown_up_to_the_damage(damage: object, problem: str, tmp_path: Path) -> None:
    assert callable(damage)
    file = write_log(tmp_path, damage(encode_entries(PAYLOADS)))

    result = inspect("log", file)

    assert result.exit_code == 1
    assert result.stdout.splitlines() == LOG_LINES[:-1]
    offset = len(FILE_HEADER) + len(encode_entries(PAYLOADS[:-1]))
    assert result.stderr.startswith(f"{file}, byte {offset}: {problem}.")


def test_a_transaction_of_no_known_form_is_shown_in_hexadecimal(tmp_path: Path) -> None:
    unknown = encode(TxnHeader(0, 0, 2, 0, 77))

    result = inspect("log", write_log(tmp_path, encode_entries([PAYLOADS[0], unknown, PAYLOADS[3]])))

    assert result.exit_code == 1
    assert (
        result.stdout.splitlines()[2]
        == f"zxid 0x2 cannot be decoded (no transaction has type 77): {unknown.hex()}"
    )
    assert len(result.stdout.splitlines()) == 4


@pytest.mark.parametrize("kind", ["log", "snapshot"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"garbage of more than sixteen bytes"])
def test_another_kind_of_file_is_recognised(kind: str, content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)

    result = inspect(kind, file)

    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(str(file))


def stat_of(*, owner: int) -> bytes:
    return encode(StatPersisted(0x54, 0x54, TIME_MS, TIME_MS, 2, 3, 0, owner, 0x8B))


class SmallTree:
    """A tree of three nodes and one session, as a snapshot's source."""

    def last_zxid(self) -> int:
        return 0x8B

    def snapshot_sessions(self) -> list[Session]:
        return [(0x1000, 20_000)]

    def snapshot_acls(self) -> list[StoredAcl]:
        return [(1, b"\0\0\0\1" + encode(Acl(1, Id("digest", "bob:x"))))]

    def snapshot_nodes(self) -> Iterator[Node]:
        yield b"/", b"\xff\xff\xff\xff", -1, stat_of(owner=0)
        yield b"/a", b"\0\0\0\5hello", 1, stat_of(owner=0)
        yield b"/a/e", b"\0\0\0\1\xff", -1, stat_of(owner=0x1000)

    def snapshot_digest(self) -> tuple[int, int]:
        return 0x8B, 12345


def snapshot_bytes(compression: Compression = Compression.NONE) -> bytes:
    packer = compressor(compression)
    chunks = file_chunks(SmallTree(), with_digest=True, with_last_zxid=True)
    return b"".join(packer.pack(chunk) for chunk in chunks) + packer.finish()


SNAPSHOT_LINES = """\
ZNode Details (count=3):
----
/
  cZxid = 0x00000000000054
  ctime = 2023-11-14T22:13:20.123Z
  mZxid = 0x00000000000054
  mtime = 2023-11-14T22:13:20.123Z
  pZxid = 0x0000000000008b
  cversion = 3
  dataVersion = 2
  aclVersion = 0
  ephemeralOwner = 0x00000000000000
  acl = world:anyone:cdrwa
  dataLength = 0
----
/a
  cZxid = 0x00000000000054
  ctime = 2023-11-14T22:13:20.123Z
  mZxid = 0x00000000000054
  mtime = 2023-11-14T22:13:20.123Z
  pZxid = 0x0000000000008b
  cversion = 3
  dataVersion = 2
  aclVersion = 0
  ephemeralOwner = 0x00000000000000
  acl = digest:bob:x:r
  dataLength = 5
----
/a/e
  cZxid = 0x00000000000054
  ctime = 2023-11-14T22:13:20.123Z
  mZxid = 0x00000000000054
  mtime = 2023-11-14T22:13:20.123Z
  pZxid = 0x0000000000008b
  cversion = 3
  dataVersion = 2
  aclVersion = 0
  ephemeralOwner = 0x00000000001000
  acl = world:anyone:cdrwa
  dataLength = 1
----
Session Details (sid, timeout, ephemeralCount):
0x00000000001000, 20000, 1
Target zxid digest is: 8b, 12345
----
Last zxid: 0x8b
""".splitlines()


@pytest.mark.parametrize("compression", Compression)
def test_a_snapshot_is_written_out_however_it_is_packed(compression: Compression, tmp_path: Path) -> None:
    file = tmp_path / "snapshot.8b"
    file.write_bytes(snapshot_bytes(compression))

    result = inspect("snapshot", file)

    assert result.exit_code == 0
    assert result.stdout.splitlines() == SNAPSHOT_LINES


def test_data_is_shown_on_demand(tmp_path: Path) -> None:
    file = tmp_path / "snapshot.8b"
    file.write_bytes(snapshot_bytes())

    assert "  data = aGVsbG8=" in inspect("snapshot", file, "--data").stdout.splitlines()


def test_a_snapshot_in_json_has_sessions_nodes_and_an_end(tmp_path: Path) -> None:
    file = tmp_path / "snapshot.8b"
    file.write_bytes(snapshot_bytes())

    lines = [json.loads(line) for line in inspect("snapshot", file, "--json").stdout.splitlines()]

    assert lines[0] == {"session": "0x1000", "timeout_ms": 20_000}
    assert [line["path"] for line in lines[1:4]] == ["/", "/a", "/a/e"]
    assert (lines[1]["data"], lines[2]["data"], lines[3]["data_base64"]) == (None, "hello", "/w==")
    assert lines[4] == {"digest_zxid": "0x8b", "digest": 12345, "last_zxid": "0x8b"}


def test_a_damaged_snapshot_is_shown_up_to_the_damage(tmp_path: Path) -> None:
    file = tmp_path / "snapshot.8b"
    whole = snapshot_bytes()
    file.write_bytes(whole[: whole.index(b"/a/e") + 10])

    result = inspect("snapshot", file)

    assert result.exit_code == 1
    assert result.stdout.splitlines() == ["ZNode Details (count=2):", *SNAPSHOT_LINES[1:27]]
    assert result.stderr.startswith(f"{file}: the file ends too early, behind /a.")


def test_a_wrong_checksum_is_found_behind_the_last_node(tmp_path: Path) -> None:
    file = tmp_path / "snapshot.8b"
    file.write_bytes(snapshot_bytes().replace(b"hello", b"jello"))

    result = inspect("snapshot", file)

    assert result.exit_code == 1
    assert "/a/e" in result.stdout
    assert result.stderr.startswith(f"{file}: a checksum is wrong or cut off, behind /a/e.")
