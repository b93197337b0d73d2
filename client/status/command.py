"""The command line of `triokeeper status`. What only some of its options need is imported for them alone."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

import click

from client.connect_string import InvalidConnectString, parse_connect_string
from client.option_types import Seconds
from client.standard_streams import open_missing_streams
from client.status.default_address import default_address
from client.status.report import Verdict

if TYPE_CHECKING:
    from client.status.members import Address

WAIT_PAUSE_S = 0.25
EXIT_BROKEN_PIPE = 141  # as a shell tells of SIGPIPE


class WrongUse(click.UsageError):
    """A mistake on the command line."""

    exit_code = 64  # as in sysexits.h: click's own, 2, means that there is no quorum


class StatusCommand(click.Command):
    """A command whose wrong use has an exit code that no state of an ensemble has."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _usage_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _usage_errors():
            return super().invoke(ctx)


@contextmanager
def _usage_errors() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        raise WrongUse(error.format_message(), error.ctx) from None


@click.command(cls=StatusCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("servers", required=False, metavar="[HOST:PORT,...]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of the table.")
@click.option("--ready", is_flag=True, help="Only: does this one server serve, in a quorum? Says nothing.")
@click.option("--wait", "wait_s", type=Seconds(0), metavar="SECONDS", help="Wait for exit code 0, so long.")
@click.option("--watch", is_flag=True, help="Show it again and again, until Ctrl-C.")
@click.option("--every", "every_s", default=2.0, show_default=True, type=Seconds(0.1), help="With --watch.")
@click.option(
    "--timeout",
    "timeout_s",
    default=3.0,
    show_default=True,
    type=Seconds(0.05),
    help="For each server.",
)
def status(
    servers: str | None,
    as_json: bool,
    ready: bool,
    wait_s: float | None,
    watch: bool,
    every_s: float,
    timeout_s: float,
) -> NoReturn:
    """Show a whole ensemble, from one or more of its servers; Apache's count as well as ours.

    Without an address: this machine's server, at the client port of the zoo.cfg in ZOOCFGDIR, else at 2181.
    The other members are found from the configuration that the server tells.

    \b
    Exit codes:
      0  all members are in
      1  there is a quorum, but a member is missing
      2  no quorum
      3  no server can be reached
      64 wrong arguments
    """
    open_missing_streams()
    if ready and (watch or as_json):
        raise click.UsageError("--ready says nothing: it goes neither with --watch nor with --json")
    if watch and wait_s is not None:
        raise click.UsageError("choose --watch or --wait")
    addresses = _addresses(servers)
    if ready:
        if len(addresses) != 1:
            raise click.UsageError("--ready is about one server: name one HOST:PORT")
        sys.exit(_wait_until_ready(addresses[0], wait_s or 0.0, timeout_s))
    try:
        sys.exit(_show(addresses, as_json, wait_s, every_s if watch else None, timeout_s))
    except BrokenPipeError:  # click would end with 1, which means that a member is missing
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_BROKEN_PIPE)


def _addresses(servers: str | None) -> "list[Address]":
    if servers is None:
        return [default_address(os.environ)]
    try:
        return list(parse_connect_string(servers).hosts)
    except InvalidConnectString as problem:
        raise click.UsageError(str(problem)) from None


def _wait_until_ready(address: "Address", wait_s: float, timeout_s: float) -> Verdict:
    from client.status.ready import ready_verdict

    deadline = time.monotonic() + wait_s
    while True:
        verdict = ready_verdict(*address, timeout_s)
        if verdict is Verdict.ALL_IN or time.monotonic() + WAIT_PAUSE_S > deadline:
            return verdict
        time.sleep(WAIT_PAUSE_S)


def _show(
    addresses: "list[Address]", as_json: bool, wait_s: float | None, every_s: float | None, timeout_s: float
) -> Verdict:
    import trio

    from client.status.probe import Prober
    from client.status.show import Screen, keep_showing, show_once

    prober, screen = Prober(addresses, timeout_s), Screen(as_json=as_json)
    if every_s is None:
        return trio.run(show_once, prober.look, screen, wait_s or 0.0)
    with suppress(KeyboardInterrupt):  # how one leaves
        trio.run(keep_showing, prober.look, screen, every_s)
    return screen.last_verdict


def main(arguments: Sequence[str]) -> NoReturn:
    """Run it without the rest of `triokeeper`: health checks do, every few seconds."""
    status.main(list(arguments), prog_name="triokeeper status")
