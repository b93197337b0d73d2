"""The command line of `triokeeper crosscheck`."""

import os
import signal
import sys
from typing import Final, NoReturn

import click
import trio

from client.connect_string import (
    ConnectString,
    InvalidConnectString,
    host_port,
    parse_connect_string,
)
from client.connecting import open_tcp
from client.crosscheck.findings import Findings
from client.crosscheck.mirror import Mirror
from client.crosscheck.proxy import Proxy
from client.paths import InvalidPath
from client.status.default_address import default_address

HOST: Final = "127.0.0.1"
EXIT_DIFFERENT: Final = 1
EXIT_INCOMPLETE: Final = 3  # 2 is that of a wrong command line
CATCH_UP_SECONDS_MAX: Final = 10.0


def _parse_servers(ctx: click.Context, param: click.Parameter, text: str | None) -> ConnectString:
    if text is None:
        return ConnectString((default_address(os.environ),))
    try:
        servers = parse_connect_string(text)
    except (InvalidConnectString, InvalidPath) as problem:
        raise click.BadParameter(str(problem)) from None
    if servers.chroot.prefix:
        raise click.BadParameter(f"{text}: clients bring their chroot themselves")
    return servers


def _parse_server(ctx: click.Context, param: click.Parameter, text: str) -> tuple[str, int]:
    servers = _parse_servers(ctx, param, text)
    if len(servers.hosts) != 1:
        raise click.BadParameter(f"{text}: what is compared with is one server")
    return servers.hosts[0]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-s",
    "--server",
    "servers",
    metavar="HOST:PORT,...",
    callback=_parse_servers,
    help="Who answers the clients. Default: this machine's server.",
)
@click.option(
    "--against",
    "second",
    required=True,
    metavar="HOST:PORT",
    callback=_parse_server,
    help="Who is asked the same.",
)
@click.option("--listen", "port", required=True, type=click.IntRange(0, 65535), help="Where clients connect.")
@click.option("--address", default=HOST, show_default=True, help="The address to listen at.")
def crosscheck(servers: ConnectString, second: tuple[str, int], port: int, address: str) -> NoReturn:
    """Try another server with your own application's traffic, and see every difference.

    Point the application at the port given by --listen. It is answered by --server alone, as fast as ever.
    What it asks is asked of --against too, in the order in which the first server did it, and every
    difference in replies, errors, stats and watch events is a line on standard output. Zxids, times and
    session ids may differ, if they do so consistently.

    Both trees must be equal in the beginning: empty, or from copies of the same data directory. Nobody else
    may write to either of them meanwhile.

    Ends on Ctrl-C or SIGTERM with a line of counts; the exit code is 1 if there was a difference, and else 3
    if --against was not asked everything, because it stayed away or fell too far behind.
    """
    findings = Findings(str(servers), host_port(*second), _print_line)
    is_complete = trio.run(_run, servers, second, address, port, findings)
    _print_line(findings.summary())
    sys.exit(exit_code(findings, is_complete=is_complete))


def exit_code(findings: Findings, *, is_complete: bool) -> int:
    if findings.counts["differences"]:
        return EXIT_DIFFERENT
    return 0 if is_complete else EXIT_INCOMPLETE


def _print_line(line: str) -> None:
    print(line, flush=True)


async def _run(
    servers: ConnectString, second: tuple[str, int], address: str, port: int, findings: Findings
) -> bool:
    """Serve until a signal; whether everything was asked of the second server."""
    mirror = Mirror(second, findings, open_tcp)
    proxy = Proxy(servers.hosts, mirror, open_tcp)
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            try:
                listeners = await trio.open_tcp_listeners(port, host=address)
            except OSError as problem:
                raise click.ClickException(f"{host_port(address, port)}: {problem.strerror}") from None
            nursery.start_soon(trio.serve_listeners, proxy.serve, listeners)
            nursery.start_soon(mirror.run)
            bound = listeners[0].socket.getsockname()[1]
            _print_line(
                f"listening at {host_port(address, bound)}: {servers} answers, {findings.second} is compared"
            )
            async for _ in signals:
                break
            with trio.move_on_after(CATCH_UP_SECONDS_MAX):
                await mirror.catch_up()
            is_complete = mirror.is_complete
            mirror.finish()
            nursery.cancel_scope.cancel()
    return is_complete
