"""Which digests are kept."""

from server.digest_history import DigestHistory


def test_every_128th_transaction_is_kept_so_that_all_servers_keep_the_same() -> None:
    history = DigestHistory()
    for zxid in range(0x1_0000_0001, 0x1_0000_0180):
        history.note(zxid, zxid * 3)
    assert list(history) == [(0x1_0000_0080, 0x1_0000_0080 * 3), (0x1_0000_0100, 0x1_0000_0100 * 3)]


def test_only_the_latest_1024_are_kept() -> None:
    history = DigestHistory()
    for count in range(1500):
        history.note(128 * count, count)
    assert [digest for _, digest in history] == list(range(1500 - 1024, 1500))
