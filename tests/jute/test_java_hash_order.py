"""The order of Java's sets and maps; the expected numbers and orders were printed by Java 17."""

from jute.java_hash_order import hash_order, long_hash, string_hash


def test_hashes_of_strings() -> None:
    assert string_hash("") == 0
    assert string_hash("zookeeper") == 1600681804
    assert string_hash("a-very-long-name-0000000001") == -70101251 & 0xFFFFFFFF
    assert string_hash("日本語") == 25921943
    assert string_hash("😀") == 1772899


def test_hashes_of_longs() -> None:
    assert long_hash(0x100000E21370000) == 540475406
    assert long_hash(-1) == 0
    assert long_hash(-0x7FFFFFFFFFFFFFFF) == -2147483647 & 0xFFFFFFFF


def test_a_set_that_grew() -> None:
    names = [f"node-{number}" for number in range(14)]
    order = [0, 1, 2, 3, 4, 5, 13, 6, 12, 7, 11, 8, 10, 9]

    assert hash_order(names, string_hash, 8) == [f"node-{number}" for number in order]


def test_a_set_that_did_not_grow() -> None:
    names = "zookeeper brokers admin config consumers controller".split()

    ordered = "admin consumers controller brokers zookeeper config".split()
    assert hash_order(names, string_hash, 8) == ordered


def test_equal_hashes_stand_by_age() -> None:
    assert hash_order(["Aa", "BB", "C#"], string_hash, 8) == ["Aa", "BB", "C#"]
    assert hash_order(["BB", "Aa", "C#"], string_hash, 8) == ["BB", "Aa", "C#"]


def test_a_map_of_longs() -> None:
    sessions = [0x100000E21370000 + number * 0x10001 for number in range(14)]

    order = [12, 10, 9, 11, 13, 4, 2, 6, 1, 3, 5, 7, 0, 8]
    assert hash_order(sessions, long_hash, 16) == [sessions[number] for number in order]
