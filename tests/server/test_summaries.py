"""Many numbers in a few, against counting by hand."""

from hypothesis import given
from hypothesis import strategies as st

from server.summaries import PercentileSummary, Sizes, Summary

SHARES = (0.5, 0.95, 0.99, 0.999)

numbers_with_counts = st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(1, 5)), min_size=1)


def summary_of(pairs: list[tuple[int, int]]) -> PercentileSummary:
    summary = PercentileSummary()
    for number, count in pairs:
        summary.add(number, count)
    return summary


def percentile_by_hand(numbers: list[int], share: float) -> float:
    """Linear between neighbours, at position share * (n + 1) of the sorted row, counted from 1."""
    row = sorted(numbers)
    position = share * (len(row) + 1)
    if position < 1:
        return row[0]
    if position >= len(row):
        return row[-1]
    below, above = row[int(position) - 1], row[int(position)]
    return below + (position - int(position)) * (above - below)


@given(numbers_with_counts)
def test_a_summary_is_what_counting_by_hand_says(pairs: list[tuple[int, int]]) -> None:
    """Adding a number n times at once is adding it n times."""
    row = [number for number, count in pairs for _ in range(count)]
    summary = summary_of(pairs)
    assert (summary.count, summary.total) == (len(row), sum(row))
    assert (summary.least, summary.greatest) == (min(row), max(row))


@given(st.lists(st.tuples(st.integers(0, 127), st.integers(1, 50)), min_size=1))
def test_percentiles_of_small_numbers_are_exact(pairs: list[tuple[int, int]]) -> None:
    """Below 128, which most latencies are, nothing is lost."""
    row = [number for number, count in pairs for _ in range(count)]
    by_hand = [int(percentile_by_hand(row, share) + 0.5) for share in SHARES]
    assert summary_of(pairs).percentiles(SHARES) == by_hand


@given(numbers_with_counts)
def test_percentiles_of_large_numbers_are_off_by_less_than_a_hundredth(pairs: list[tuple[int, int]]) -> None:
    """The steps between counted numbers grow with the numbers."""
    row = [number for number, count in pairs for _ in range(count)]
    for share, found in zip(SHARES, summary_of(pairs).percentiles(SHARES), strict=True):
        by_hand = percentile_by_hand(row, share)
        assert abs(found - by_hand) <= by_hand / 100 + 1


def test_one_large_number_is_every_percentile_exactly() -> None:
    """What is known of the least and the greatest bounds what is guessed from a step."""
    assert summary_of([(1_000_001, 1)]).percentiles(SHARES) == [1_000_001] * 4


def test_a_summary_holds_a_bounded_number_of_counts() -> None:
    """A server that runs for years must not remember every latency it ever saw."""
    summary = PercentileSummary()
    for number in range(0, 1 << 24, 97):
        summary.add(number)
    assert len(summary._counts) <= 128 + 17 * 64


def test_an_empty_summary_is_all_zeroes() -> None:
    summary = PercentileSummary()
    assert (summary.average, summary.least, summary.greatest) == (0.0, 0, 0)
    assert summary.percentiles(SHARES) == [0, 0, 0, 0]


def test_an_average_is_rounded_to_four_places_with_halves_up() -> None:
    """ZooKeeper shows 1.5032, not 1.503225806."""
    summary = Summary()
    summary.add(0, 31)
    summary.add(1)
    assert summary.average == 0.0313  # 0.03125


def test_several_summaries_are_shown_as_one() -> None:
    first, second = Summary(), Summary()
    first.add(5, 2)
    second.add(1)
    whole = Summary.of_all((first, second, Summary()))
    assert (whole.count, whole.total, whole.least, whole.greatest) == (3, 11, 1, 5)


def test_sizes_are_minus_one_until_there_is_one() -> None:
    sizes = Sizes()
    assert str(sizes) == "-1/-1/-1"
    for size in (92, 48, 60):
        sizes.add(size)
    assert str(sizes) == "60/48/92"
    sizes.reset()
    assert str(sizes) == "-1/-1/-1"
