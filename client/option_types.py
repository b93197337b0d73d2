"""Numbers on the command line that fit what they are for: others are a mistake of whoever typed them."""

import math
from typing import Any

import click

SECONDS_MAX = (2**31 - 1) / 1000  # the protocol counts milliseconds in 32 bits

VERSION = click.IntRange(-(2**31), 2**31 - 1)
MILLISECONDS = click.IntRange(1, 2**63 - 1)


class Seconds(click.FloatRange):
    """A time that a clock can wait for."""

    name = "seconds"

    def __init__(self, min_s: float) -> None:
        super().__init__(min_s, SECONDS_MAX)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is no number.", param, ctx)
        return seconds
