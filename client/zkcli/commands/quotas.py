"""setquota, listquota and delquota: quotas are nodes below /zookeeper/quota."""

from contextlib import suppress

from client.errors import NodeExists, NoNode
from client.paths import parent_of
from client.requester import Requester
from client.zkcli.commands.command import Command
from client.zkcli.commands.subtree import visit_subtree
from client.zkcli.context import Context
from client.zkcli.failures import CommandFailed, JavaException
from client.zkcli.java_values import parse_int, parse_long
from client.zkcli.options import CommandLine, Option, Options
from client.zkcli.quota_text import (
    LIMIT_NODE,
    NO_LIMIT,
    QUOTA_ROOT,
    Figures,
    limit_path,
    quota_path,
    stat_path,
    warnings_about,
)

# The option for each limit: its name in the node's data, what it is called, and the least value.
_LIMITS = {
    "n": ("count", "num soft quota"),
    "b": ("bytes", "bytes soft quota"),
    "N": ("countHardLimit", "num hard quota"),
    "B": ("byteHardLimit", "bytes hard quota"),
}


async def _set_quota(context: Context, line: CommandLine) -> None:
    path = line.arguments[1]
    if path.startswith(QUOTA_ROOT):
        context.console.err(f"cannot set a quota under the path: {QUOTA_ROOT}")
        return
    try:
        limits = _limits_of(line)
    except CommandFailed as problem:  # said, but no failure
        context.console.err(str(problem))
        return
    await check_may_have_quota(context.session, path)
    await create_quota_parents(context.session, path)
    for warning in await write_limits(context.session, path, limits):
        context.console.out(warning)


def _limits_of(line: CommandLine) -> Figures:
    """The one limit that was given, the others being none."""
    limits = Figures({name: NO_LIMIT for name, _ in _LIMITS.values()})
    letter = next(letter for letter in _LIMITS if line.has(letter))
    is_count = letter in "nN"
    try:
        value = (parse_int if is_count else parse_long)(line.value(letter))
    except JavaException:
        raise CommandFailed("NumberFormatException happens when parsing the option value") from None
    if is_count and value <= 0:
        raise CommandFailed("the num quota must be greater than zero")
    if value < 0:
        raise CommandFailed("the bytes quota must be greater than or equal to zero")
    limits.numbers[_LIMITS[letter][0]] = value
    return limits


async def check_may_have_quota(session: Requester, path: str) -> None:
    """There must be such a node, and no quota above or below it."""
    if await session.exists(path) is None:
        raise CommandFailed(f"{path} does not exist.")
    try:
        async for visited in visit_subtree(session, quota_path(path)):
            if visited.endswith(f"/{LIMIT_NODE}") and parent_of(visited) != quota_path(path):
                child = parent_of(visited).removeprefix(QUOTA_ROOT)
                raise CommandFailed(f"{path} has a child {child} which has a quota")
    except NoNode:
        pass
    above = parent_of(path)
    ancestors = []
    while above != "/":
        ancestors.append(above)
        above = parent_of(above)
    for ancestor in reversed(ancestors):
        try:
            children, _ = await session.get_children(quota_path(ancestor))
        except NoNode:
            return
        if LIMIT_NODE in children:
            raise CommandFailed(f"{path} has a parent {ancestor} which has a quota")


async def create_quota_parents(session: Requester, path: str) -> None:
    made = ""
    for name in quota_path(path).split("/")[1:]:
        made += f"/{name}" if name else ""
        if await session.exists(made) is None:
            await _create_unless_there(session, made)


async def _create_unless_there(session: Requester, path: str) -> None:
    with suppress(NodeExists):  # somebody else may have done it
        await session.create(path, None)


async def write_limits(session: Requester, path: str, limits: Figures) -> list[str]:
    """Create the nodes of a quota or change its limits; what is to be said about limits exceeded already."""
    if await session.exists(limit_path(path)) is None:
        await session.create(limit_path(path), limits.encode())
        await session.create(stat_path(path), Figures({"count": 0, "bytes": 0}).encode())
        return warnings_about(*await read_quota(session, path))
    known, use = await read_quota(session, path)
    known.numbers |= {name: value for name, value in limits.numbers.items() if value > NO_LIMIT}
    await session.set_data(limit_path(path), known.encode())
    return warnings_about(known, use)


async def read_quota(session: Requester, path: str) -> tuple[Figures, Figures]:
    """The limits, and how much is used."""
    limits, _ = await session.get_data(limit_path(path))
    use, _ = await session.get_data(stat_path(path))
    return Figures.parse(limits), Figures.parse(use)


SET_QUOTA = Command(
    "setquota",
    "-n|-b|-N|-B val path",
    _set_quota,
    Options(
        tuple(Option(letter, words, takes_value=True) for letter, (_, words) in _LIMITS.items()),
        are_exclusive=True,
        is_one_needed=True,
    ),
    arguments_min=2,
)


async def _list_quota(context: Context, line: CommandLine) -> None:
    path = line.arguments[1]
    context.console.err(f"absolute path is {limit_path(path)}")
    try:
        limits, use = await read_quota(context.session, path)
    except NoNode:
        context.console.err(f"quota for {path} does not exist.")
        return
    except JavaException as problem:
        raise CommandFailed(problem.message) from None
    context.console.out(f"Output quota for {path} {limits}")
    context.console.out(f"Output stat for {path} {use}")


LIST_QUOTA = Command("listquota", "path", _list_quota, arguments_min=2)


async def _del_quota(context: Context, line: CommandLine) -> None:
    path = line.arguments[1]
    try:
        if await context.session.exists(limit_path(path)) is None:
            context.console.out(f"Quota does not exist for {path}")
            return
        names = [name for letter, (name, _) in _LIMITS.items() if line.has(letter)]
        if names:
            await lift_limits(context.session, path, names)
        else:
            await delete_quota(context.session, path)
    except NoNode:
        context.console.err(f"quota for {path} does not exist.")


async def lift_limits(session: Requester, path: str, names: list[str]) -> None:
    data, _ = await session.get_data(limit_path(path))
    try:
        limits = Figures.parse(data)
    except JavaException as problem:
        raise CommandFailed(problem.message) from None
    limits.numbers |= dict.fromkeys(names, NO_LIMIT)
    await session.set_data(limit_path(path), limits.encode())


async def delete_quota(session: Requester, path: str) -> None:
    """Delete its nodes, and those above that were there for nothing else."""
    above = quota_path(path)
    children, _ = await session.get_children(above)
    for child in children:
        await session.delete(f"{above}/{child}")
    while above != QUOTA_ROOT and not (await session.get_children(above))[0]:
        await session.delete(above)
        above = parent_of(above)


DEL_QUOTA = Command(
    "delquota",
    "[-n|-b|-N|-B] path",
    _del_quota,
    Options(
        tuple(Option(letter, words) for letter, (_, words) in _LIMITS.items()),
        are_exclusive=True,
    ),
    arguments_min=2,
)
