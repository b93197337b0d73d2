"""Who may: addresses, digests, and how entries are checked, stored and shown."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jute.errors import AuthFailed, InvalidAcl, MarshallingError, NoAuth
from jute.opcodes import Perms
from jute.record import DecodeError
from server.acl_index import AclIndexes, Entry, entries_of
from server.acls import (
    OPEN_ACL,
    AccessRules,
    AuthIds,
    DigestScheme,
    IpScheme,
    add_ids,
    digest_id,
    encode_acl,
    hash_name,
)

ADDRESSES = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(str),
    st.ip_addresses(v=6).map(lambda ip: ip.exploded),
)
RULES = AccessRules()
ME: AuthIds = (("ip", "127.0.0.1"), ("digest", "u:hash"))


def matches(address: str, name: str) -> bool:
    return RULES.permits(encode_acl([(Perms.READ, "ip", name)]), Perms.READ, (("ip", address),))


@given(ADDRESSES, ADDRESSES, st.integers(0, 128))
def test_networks_match_as_the_library_says(address: str, network: str, bits: int) -> None:
    """Within one family, by as many bits as are given."""
    ours, theirs = ipaddress.ip_address(address), ipaddress.ip_address(network)
    scheme = IpScheme()
    name = f"{network}/{bits}"
    if any("." in text and ":" in text for text in (address, network)):
        return  # the original has no dots in IPv6; Python 3.13 writes them for ::ffff:0:0/96
    assert scheme.is_valid(network)
    assert matches(network, network)
    assert matches(address, network) == (ours == theirs)
    assert scheme.is_valid(name) == (bits <= theirs.max_prefixlen)
    if bits <= theirs.max_prefixlen:
        inside = ipaddress.ip_network((int(theirs), bits), strict=False) if theirs.version == 4 else None
        if theirs.version == 6:
            inside = ipaddress.IPv6Network((int(theirs), bits), strict=False)
        assert inside is not None
        assert matches(address, name) == (ours.version == theirs.version and ours in inside)


@given(st.text("0123456789.:/+-abcdef%g \u0664", max_size=24))
def test_whatever_is_asked_as_an_address_is_answered(text: str) -> None:
    """True or False, and what is not valid matches nothing."""
    scheme = IpScheme()
    if not scheme.is_valid(text):
        assert not matches("1.2.3.4", text)
        assert not matches("::1", text)


@pytest.mark.parametrize(
    "text", ["1" * 5000 + ".1.1.1", "0" * 5000 + "1.2.3.4", "1.2.3.4/" + "0" * 5000, ":" * 5000]
)
def test_endless_numbers_are_no_burden(text: str) -> None:
    """Python refuses to convert so many digits; the server must not fall over that."""
    assert IpScheme().is_valid(text) == text.startswith(("0", "1.2"))
    matches("1.2.3.4", text)


@pytest.mark.parametrize(
    ("java", "python"),
    [
        ("SHA1", "sha1"),
        ("SHA-1", "sha1"),
        ("SHA-256", "sha256"),
        ("SHA-512/256", "sha512_256"),
        ("SHA3-256", "sha3_256"),
        ("MD5", "md5"),
    ],
)
def test_hashes_by_their_names_in_java(java: str, python: str) -> None:
    """zookeeper.DigestAuthenticationProvider.digestAlg."""
    assert hash_name(java) == python
    assert DigestScheme(algorithm=java).prove(b"u:p", "")[0][1].startswith("u:")


def test_an_unknown_hash_is_refused_at_once() -> None:
    """Not when the first client comes."""
    with pytest.raises(ValueError, match="unsupported"):
        DigestScheme(algorithm="ROT13")


def test_the_super_digest_makes_a_super_user() -> None:
    """Whatever the user is called; and the digest is proven too."""
    scheme = DigestScheme(super_digest=digest_id(b"boss:secret"))
    assert scheme.prove(b"boss:secret", "") == (("super", ""), ("digest", digest_id(b"boss:secret")))
    assert scheme.prove(b"boss:wrong", "") == (("digest", digest_id(b"boss:wrong")),)
    with pytest.raises(AuthFailed):
        scheme.prove(None, "")


@pytest.mark.parametrize(
    ("entries", "wanted", "ids", "permitted"),
    [
        ([], Perms.READ, ME, True),
        ([(1, "world", "anyone")], Perms.READ, (), True),
        ([(1, "world", "anyone")], Perms.WRITE, ME, False),
        ([(1, "world", "anyone")], Perms.READ | Perms.ADMIN, ME, True),
        ([(1, "world", "nobody")], Perms.READ, ME, False),
        ([(0, "world", "anyone")], Perms.READ, ME, False),
        ([(0, "world", "anyone")], Perms.READ, (("super", ""),), True),
        ([(-1, "digest", "u:hash")], Perms.ADMIN, ME, True),
        ([(31, "digest", "u:hash")], Perms.ADMIN, (("ip", "u:hash"),), False),
        ([(31, "digest", "u:other")], Perms.ADMIN, ME, False),
        ([(31, "unknown", "u:hash")], Perms.READ, (("unknown", "u:hash"),), False),
        ([(1, "digest", "u:hash"), (2, "ip", "127.0.0.0/8")], Perms.WRITE, ME, True),
        ([(31, "ip", "nonsense")], Perms.READ, ME, False),
    ],
)
def test_permission(entries: list[Entry], wanted: int, ids: AuthIds, permitted: bool) -> None:
    """One entry with one of the wanted bits, for one of the ids, is enough; an empty ACL forbids nothing."""
    acl = encode_acl(entries)
    assert RULES.permits(acl, wanted, ids) == permitted
    assert AccessRules(skip_acl=True).permits(acl, wanted, ())
    if permitted:
        RULES.check(acl, wanted, ids)
    else:
        with pytest.raises(NoAuth):
            RULES.check(acl, wanted, ids)


def fixed(*entries: Entry, ids: AuthIds = ME) -> list[Entry]:
    return list(entries_of(RULES.fix_up(encode_acl(entries), ids)))


def test_auth_stands_for_everyone_who_authenticated() -> None:
    """In its place, with its perms; an address is no authentication, nor is being super."""
    ids: AuthIds = (("ip", "1.2.3.4"), ("digest", "a:x"), ("super", ""), ("digest", "b:y"))
    entries: list[Entry] = [(1, "world", "anyone"), (2, "auth", "whatever"), (4, "ip", "::1")]
    assert fixed(*entries, ids=ids) == [
        (1, "world", "anyone"),
        (2, "digest", "a:x"),
        (2, "digest", "b:y"),
        (4, "ip", "::1"),
    ]
    with pytest.raises(InvalidAcl):
        fixed((31, "auth", ""), ids=(("ip", "1.2.3.4"), ("super", "")))


def test_duplicates_go_and_the_order_stays() -> None:
    """Only exact ones: perms, scheme and id."""
    entries: list[Entry] = [
        (2, "digest", "a:b"),
        (1, "world", "anyone"),
        (2, "digest", "a:b"),
        (3, "digest", "a:b"),
    ]
    assert fixed(*entries) == [entries[0], entries[1], entries[3]]


def test_an_acl_without_end_is_fixed_or_refused() -> None:
    """A length that is none cannot get this far; an id as long as a frame can."""
    assert fixed((1, "digest", "u:" + "x" * 3_000_000))[0][2].startswith("u:x")


@pytest.mark.parametrize("scheme", ["world", "digest", "ip"])
def test_a_missing_id_breaks_the_request(scheme: str) -> None:
    """A scheme that nobody knows does not even look at it."""
    acl = encode_acl([(1, scheme, "x")])
    null_id = acl[: -len("x") - 4] + b"\xff\xff\xff\xff"
    with pytest.raises(MarshallingError):
        RULES.fix_up(null_id, ME)
    with pytest.raises(InvalidAcl):
        RULES.fix_up(null_id.replace(scheme.encode(), b"n" * len(scheme)), ME)


def test_hashes_are_hidden_from_who_may_not_administer() -> None:
    """To the end of the line, as Java knows lines, in every line."""
    entries: list[Entry] = [(1, "world", "anyone"), (16, "digest", "u:a:b\rx:y\u2028z:\n"), (31, "ip", "::1")]
    acl = encode_acl(entries)
    assert entries_of(RULES.redact(acl, ()))[1][2] == "u:x\rx:x\u2028z:x\n"
    assert RULES.redact(acl, (("super", ""),)) == acl
    assert RULES.redact(OPEN_ACL, ()) == OPEN_ACL


def test_ids_add_up_once() -> None:
    """A set that keeps its order."""
    assert add_ids(ME, (("digest", "v:x"), ME[0])) == (*ME, ("digest", "v:x"))


def test_who_am_i_tells_users_not_secrets() -> None:
    """Of digests the name alone; of what no scheme knows, nothing."""
    infos = RULES.client_infos((*ME, ("super", "")))
    assert [(info.auth_scheme, info.user) for info in infos] == [
        ("ip", "127.0.0.1"),
        ("digest", "u"),
        ("super", ""),
    ]


@given(st.text(max_size=5))
def test_an_id_matches_itself_after_being_stored(user: str) -> None:
    """Also beyond the basic plane, where Java's encoding reads back as something else."""
    name = digest_id(user.encode("utf-8", "replace"))
    acl = RULES.fix_up(encode_acl([(31, "auth", "")]), (("digest", name),))
    assert RULES.permits(acl, Perms.READ, (("digest", name),))


@given(st.binary(max_size=12))
def test_foreign_acls_are_read_somehow(raw: bytes) -> None:
    """Files of others may hold anything in their strings."""
    length = len(raw).to_bytes(4, "big")
    acl = b"\0\0\0\1\0\0\0\1" + length + raw + length + raw
    assert len(entries_of(acl)) == 1
    RULES.permits(acl, Perms.READ, ME)


# -- the index that judges, against the rule itself


NAMES = st.sampled_from(
    ["a:1", "b:2", "1.2.3.4", "1.2.3.0/24", "1.2.0.0/16", "0.0.0.0/0", "::1", "::/0", "x"]
)
SCHEMES = st.sampled_from(["digest", "ip", "world", "sasl"])
ENTRIES = st.lists(st.tuples(st.integers(0, 31), SCHEMES, NAMES | st.just("anyone")), min_size=1, max_size=6)
IDS = st.lists(
    st.tuples(SCHEMES, st.sampled_from(["a:1", "b:2", "1.2.3.4", "1.2.9.9", "::1", "anyone", "x"])),
    max_size=3,
)


def grants(entry: Entry, wanted: int, ids: AuthIds) -> bool:
    """The rule for one entry, as it is written down."""
    perms, scheme, name = entry
    if not perms & wanted:
        return False
    if (scheme, name) == ("world", "anyone"):
        return True
    return any(mine == scheme and in_scheme(scheme, proven, name) for mine, proven in ids)


def in_scheme(scheme: str, proven: str, name: str) -> bool:
    if scheme == "digest":
        return proven == name
    if scheme != "ip":
        return False  # nobody can prove any
    try:
        return ipaddress.ip_address(proven) in ipaddress.ip_network(name)
    except ValueError:
        return False


@given(ENTRIES, st.integers(1, 31), IDS)
def test_an_index_grants_what_one_of_its_entries_grants(
    entries: list[Entry], wanted: int, ids: list[tuple[str, str]]
) -> None:
    expected = any(grants(entry, wanted, tuple(ids)) for entry in entries)
    assert AccessRules().permits(encode_acl(entries), wanted, tuple(ids)) == expected


def test_an_acl_is_judged_once_for_the_ids_of_a_connection() -> None:
    """However often it is asked; and again for other ids, or other rights."""
    rules = AccessRules()
    acl = encode_acl([(Perms.READ, "digest", f"u{number}:h") for number in range(1000)])
    for _ in range(100):
        assert not rules.permits(acl, Perms.READ, ME)
    proven = add_ids(ME, (("digest", "u7:h"),))
    assert rules.permits(acl, Perms.READ, proven)
    assert not rules.permits(acl, Perms.WRITE, proven)
    assert not rules.permits(acl, Perms.READ, ME)
    assert rules.entries_read == 1000


def test_an_acl_that_has_gone_through_other_hands_is_read_again() -> None:
    """What is kept is bounded, by bytes: old ones go."""
    indexes = AclIndexes()
    acls = [encode_acl([(Perms.READ, "digest", f"u{number}:{'h' * 1_000_000}")]) for number in range(6)]
    for acl in [*acls, *acls, acls[-1]]:
        indexes.of(acl)
    assert indexes.entries_read == 12


@pytest.mark.parametrize("cut", range(1, len(OPEN_ACL)))
def test_an_acl_that_is_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(DecodeError):
        entries_of(OPEN_ACL[:cut])
