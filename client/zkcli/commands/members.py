"""config and reconfig: who is in the ensemble."""

import trio

from client.errors import ServerError, server_error
from client.zkcli.commands.command import Command
from client.zkcli.context import Context
from client.zkcli.failures import CommandFailed, JavaException
from client.zkcli.forms import plain_text, stat_lines
from client.zkcli.java_values import parse_long
from client.zkcli.options import CommandLine, Option, Options

_HEXADECIMAL = 16
_ANY_VERSION = -1


async def _config(context: Context, line: CommandLine) -> None:
    from client.zkcli.member_text import client_addresses

    data, stat = await context.session.get_config(line.has("w"))
    text = "null" if data is None else plain_text(data)
    context.console.out(client_addresses(text) if line.has("c") else text)
    if line.has("s"):
        context.console.out_lines(stat_lines(stat))


CONFIG = Command(
    "config",
    "[-c] [-w] [-s]",
    _config,
    Options((Option("s", "stats"), Option("w", "watch"), Option("c", "client connection string"))),
)


async def _reconfig(context: Context, line: CommandLine) -> None:
    joining, leaving, members = (_lower_value(line, name) for name in ("add", "remove", "members"))
    _check_modes(line)
    version = _version(line)
    _check_combination(line)
    if line.has("file"):
        members = await _read_members(line.value("file"))
    try:
        data, stat = await context.session.reconfig(joining, leaving, members, version)
    except ServerError as error:
        raise server_error(error.code, "") from None  # Java's error has this path, not none
    context.console.out("Committed new configuration:\n" + plain_text(data or b""))
    if line.has("s"):
        context.console.out_lines(stat_lines(stat))


def _lower_value(line: CommandLine, name: str) -> str | None:
    return line.value(name).lower() if line.has(name) else None


def _check_modes(line: CommandLine) -> None:
    if not any(map(line.has, ("file", "members", "add", "remove"))):
        raise CommandFailed(RECONFIG.usage_text)


def _version(line: CommandLine) -> int:
    if not line.has("v"):
        return _ANY_VERSION
    try:
        return parse_long(line.value("v"), _HEXADECIMAL)
    except JavaException:
        raise CommandFailed("-v must be followed by a long (configuration version)") from None


def _check_combination(line: CommandLine) -> None:
    is_whole = line.has("file") or line.has("members")
    if is_whole and (line.has("add") or line.has("remove")):
        raise CommandFailed(
            "Can't use -file or -members together with -add or -remove (mixing incremental and"
            " non-incremental modes is not allowed)"
        )
    if line.has("file") and line.has("members"):
        raise CommandFailed("Can't use -file and -members together (conflicting non-incremental modes)")


async def _read_members(file: str) -> str:
    from client.zkcli.member_text import members_of_file

    try:
        return members_of_file(await trio.Path(file).read_text(encoding="latin-1"))
    except OSError as problem:
        raise CommandFailed(f"Error processing {file}{file} ({problem.strerror})") from None
    except CommandFailed as problem:
        raise CommandFailed(f"Error processing {file}{problem}") from None


RECONFIG = Command(
    "reconfig",
    "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] |"
    " [-add serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]",
    _reconfig,
    Options(
        (
            Option("s", "stats"),
            Option("v", "required current config version", takes_value=True),
            Option("file", "path of config file to parse for membership", takes_value=True),
            Option(
                "members",
                "comma-separated list of config strings for non-incremental reconfig",
                takes_value=True,
            ),
            Option("add", "comma-separated list of config strings for new servers", takes_value=True),
            Option("remove", "comma-separated list of server IDs to remove", takes_value=True),
        )
    ),
)
