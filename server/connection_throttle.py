"""How many new connections may begin their handshake: a token bucket, with optional early dropping (BLUE).

Pure: time comes in as milliseconds, chance as a random.Random. Off while `tokens_max` is 0.
"""

from random import Random

import attrs


@attrs.define
class ConnectionThrottle:
    """Tokens refill by time; a handshake that finds too few is refused without a word.

    While the bucket is empty the chance to drop a handshake grows, at most once every `freeze_ms`, and it
    shrinks while no more than `decrease_ratio` of the tokens are taken: refusing a few at random before the
    bucket is empty spreads the pain of a storm.
    """

    tokens_max: int
    fill_ms: int = 1
    fill_count: int = 1
    freeze_ms: int = -1
    drop_increase: float = 0.02
    drop_decrease: float = 0.002
    decrease_ratio: float = 0.0
    random: Random = attrs.field(factory=Random, repr=False)
    drop_chance: float = attrs.field(default=0.0, init=False)
    _tokens: int = attrs.field(init=False)
    _filled_ms: int = attrs.field(default=0, init=False)
    _frozen_ms: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._tokens = self.tokens_max

    @property
    def tokens_missing(self) -> int:
        """How far the bucket is from full."""
        return self.tokens_max - self._tokens

    def admits(self, weight: int, now_ms: int) -> bool:
        """Take `weight` tokens if there are enough and chance agrees."""
        if self.tokens_max <= 0:
            return True
        self._refill(now_ms)
        self._adapt(now_ms)
        if self.freeze_ms >= 0 and self.random.random() < self.drop_chance:
            return False
        if self._tokens < weight:
            return False
        self._tokens -= weight
        return True

    def _refill(self, now_ms: int) -> None:
        fills = (now_ms - self._filled_ms) // max(1, self.fill_ms)
        if fills > 0:
            self._tokens = min(self.tokens_max, self._tokens + fills * self.fill_count)
            self._filled_ms += fills * max(1, self.fill_ms)

    def _adapt(self, now_ms: int) -> None:
        if self.freeze_ms < 0 or now_ms - self._frozen_ms <= self.freeze_ms:
            return
        self._frozen_ms = now_ms
        if self._tokens == 0:
            self.drop_chance = min(1.0, self.drop_chance + self.drop_increase)
        elif self.tokens_max - self._tokens <= round(self.tokens_max * self.decrease_ratio):
            self.drop_chance = max(0.0, self.drop_chance - self.drop_decrease)
