"""What a cross-check has found, as lines for people and as counts."""

from collections import Counter
from collections.abc import Callable, Sequence

import attrs

from client.crosscheck.likeness import Difference
from client.printable import printable

VALUE_LENGTH_MAX = 120


@attrs.define
class Findings:
    """Tells every difference in a line of its own, and counts the rest."""

    first: str  # the addresses
    second: str
    tell: Callable[[str], None]
    counts: Counter[str] = attrs.field(factory=Counter)

    def differ(self, session: str, request: str, differences: Sequence[Difference]) -> None:
        """A request whose two replies are not alike."""
        self.counts["differences"] += 1
        said = "; ".join(
            f"{each.field} {_shown(each.first)} at {self.first}, {_shown(each.second)} at {self.second}"
            for each in differences
        )
        self.tell(printable(f"difference: {session}: {request}: {said}"))

    def differ_in_event(self, session: str, event: str, cause: str, *, is_missing: bool) -> None:
        """An event that only one server has sent."""
        self.counts["differences"] += 1
        sent, not_sent = (self.first, self.second) if is_missing else (self.second, self.first)
        said = f"difference: {session}: event {event}: sent by {sent}, not by {not_sent}; after {cause}"
        self.tell(printable(said))

    def note(self, text: str) -> None:
        """Something that limits what can be compared."""
        self.counts["notes"] += 1
        self.tell(printable(f"note: {text}"))

    def summary(self) -> str:
        """The last line of a run."""
        count = self.counts
        return (
            f"{count['requests']} requests and {count['events']} events compared, "
            f"{count['differences']} differences, {count['explained']} explained by timing, "
            f"{count['unchecked']} not compared"
        )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= VALUE_LENGTH_MAX else f"{text[:VALUE_LENGTH_MAX]}..."
