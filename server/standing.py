"""What a server is at the moment, alone or in its ensemble, as far as operators are shown it."""

from collections.abc import Mapping
from types import MappingProxyType

import attrs

from server.summaries import Sizes

STANDALONE = "standalone"
LEADER = "leader"
FOLLOWER = "follower"
OBSERVER = "observer"
READ_ONLY = "read-only"

_NOTHING: Mapping[str, int] = MappingProxyType({})


@attrs.frozen(kw_only=True)
class Standing:
    """A standalone server that serves, unless stated otherwise."""

    mode: str = STANDALONE
    is_serving: bool = True  # false while there is no quorum, or data is still being loaded
    monitor_values: Mapping[str, str | int] = _NOTHING  # of an ensemble's member, e.g. peer_state
    gauges: Mapping[str, int] = _NOTHING  # likewise, e.g. quorum_size, and a leader's learners
    proposals: Sizes | None = None  # a leader's
    ensemble_conf: str = ""  # what the word conf says about the ensemble, from initLimit on
