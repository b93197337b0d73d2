"""create, set, delete and deleteall."""

from client.acls import OPEN_ACL_UNSAFE
from client.errors import ServerError, server_error
from client.multi import Delete
from client.paths import validate_path
from client.session import Session
from client.zkcli.acl_text import parse_acl
from client.zkcli.commands.command import Command
from client.zkcli.commands.subtree import list_subtree
from client.zkcli.context import Context
from client.zkcli.failures import CommandFailed, JavaException
from client.zkcli.forms import stat_lines
from client.zkcli.java_values import decode_base64, parse_int, parse_long
from client.zkcli.options import CommandLine, Option, Options
from jute.opcodes import CreateMode

ANY_VERSION = -1
TTL_MS_MAX = (1 << 40) - 1
BATCH_SIZE = 1000

_BAD_ARGUMENTS = -8
_INVALID_ACL = -114
_EPHEMERAL_ON_LOCAL_SESSION = -120


async def _create(context: Context, line: CommandLine) -> None:
    mode = _create_mode(line)
    ttl_ms = _ttl_ms(line)
    path = line.arguments[1]
    data = line.arguments[2].encode(errors="replace") if len(line.arguments) > 2 else None
    acl = list(OPEN_ACL_UNSAFE)
    if len(line.arguments) > 3:
        acl = parse_acl(line.arguments[3], context.console.err)
    validate_path(path, is_sequential=mode.is_sequential)
    try:
        if not acl:
            raise server_error(_INVALID_ACL)
        made, _ = await context.session.create(path, data, acl, mode, ttl_ms)
    except ServerError as error:
        if error.code == _EPHEMERAL_ON_LOCAL_SESSION:
            context.console.err("Unable to create ephemeral node on a local session")
        elif error.code == _INVALID_ACL:
            context.console.err(str(error))
        raise
    # Of a chroot's own node Java cuts off the whole path.
    context.console.err(f"Created {'' if made == '/' else made}")


def _create_mode(line: CommandLine) -> CreateMode:
    if line.has("c") and (line.has("e") or line.has("s")):
        raise CommandFailed(
            "-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential."
        )
    if line.has("e"):
        return CreateMode.EPHEMERAL_SEQUENTIAL if line.has("s") else CreateMode.EPHEMERAL
    if line.has("t"):
        has_s = line.has("s")
        return CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL if has_s else CreateMode.PERSISTENT_WITH_TTL
    if line.has("s"):
        return CreateMode.PERSISTENT_SEQUENTIAL
    return CreateMode.CONTAINER if line.has("c") else CreateMode.PERSISTENT


def _ttl_ms(line: CommandLine) -> int | None:
    if not line.has("t"):
        return None
    try:
        ttl_ms = parse_long(line.value("t"))
    except JavaException:
        raise CommandFailed("-t argument must be a long value") from None
    if line.has("e"):
        raise CommandFailed("TTLs cannot be used with Ephemeral znodes")
    if line.has("c"):
        raise CommandFailed("TTLs cannot be used with Container znodes")
    if not 0 < ttl_ms <= TTL_MS_MAX:
        raise CommandFailed(f"ttl must be positive and cannot be larger than: {TTL_MS_MAX}")
    return ttl_ms


CREATE = Command(
    "create",
    "[-s] [-e] [-c] [-t ttl] path [data] [acl]",
    _create,
    Options(
        (
            Option("e", "ephemeral"),
            Option("s", "sequential"),
            Option("c", "container"),
            Option("t", "ttl", takes_value=True),
        )
    ),
    arguments_min=2,
)


async def _set(context: Context, line: CommandLine) -> None:
    _, path, text, *_ = line.arguments
    data = decode_base64(text) if line.has("b") else text.encode(errors="replace")
    stat = await context.session.set_data(path, data, version_of(line))
    if line.has("s"):
        context.console.out_lines(stat_lines(stat))


SET = Command(
    "set",
    "path data [-s] [-v version] [-b]",
    _set,
    Options(
        (
            Option("s", "Print znode stats additionally"),
            Option("v", "Set with an expected version", takes_value=True),
            Option("b", "Supply data in base64 format"),
        )
    ),
    arguments_min=3,
    shows_options=True,
)


def version_of(line: CommandLine) -> int:
    """The value of -v; raises JavaException if it is no number."""
    return parse_int(line.value("v")) if line.has("v") else ANY_VERSION


async def _delete(context: Context, line: CommandLine) -> None:
    path, version = line.arguments[1], version_of(line)
    if path == "/" and context.session.servers.chroot.prefix:
        raise server_error(_BAD_ARGUMENTS, path)  # Java never deletes a chroot's own node this way
    await context.session.delete(path, version)


DELETE = Command(
    "delete",
    "[-v version] path",
    _delete,
    Options((Option("v", "version", takes_value=True),)),
    arguments_min=2,
    old_form="'delete path [version]' has been deprecated. Please use 'delete [-v version] path' instead.",
)


async def _delete_all(context: Context, line: CommandLine) -> None:
    try:
        batch_size = parse_int(line.value("b")) if line.has("b") else BATCH_SIZE
    except JavaException:
        raise CommandFailed("-b argument must be an int value") from None
    paths = await list_subtree(context.session, line.arguments[1])
    paths.reverse()  # children before parents
    if batch_size <= 0:
        for path in paths:
            await context.session.delete(path)
    elif not await _delete_in_batches(context.session, paths, batch_size):
        context.console.err("Failed to delete some node(s) in the subtree!")


async def _delete_in_batches(session: Session, paths: list[str], batch_size: int) -> bool:
    """Whether all of them are gone; after a batch that fails no other is tried."""
    try:
        for start in range(0, len(paths), batch_size):
            await session.multi([Delete(path) for path in paths[start : start + batch_size]])
    except ServerError:
        return False
    return True


DELETE_ALL = Command(
    "deleteall",
    "path [-b batch size]",
    _delete_all,
    Options((Option("b", "batch size", takes_value=True),)),
    arguments_min=2,
)
