"""close and version. What changes the shell itself (connect, history, quit ...) is in shell.py."""

from client.zkcli.commands.command import Command
from client.zkcli.context import Context
from client.zkcli.options import CommandLine
from jute.zookeeper_version import FULL_VERSION


async def _close(context: Context, line: CommandLine) -> None:
    await context.session.close()


CLOSE = Command("close", "", _close, options=None)


async def _version(context: Context, line: CommandLine) -> None:
    context.console.out(f"ZooKeeper CLI version: {FULL_VERSION}")


VERSION = Command("version", "", _version, arguments_max=1)
