"""Every command of zkCli, by its name."""

from client.zkcli.commands.acls import ADD_AUTH, GET_ACL, SET_ACL, WHO_AM_I
from client.zkcli.commands.command import Command
from client.zkcli.commands.members import CONFIG, RECONFIG
from client.zkcli.commands.quotas import DEL_QUOTA, LIST_QUOTA, SET_QUOTA
from client.zkcli.commands.reading import GET, GET_ALL_CHILDREN_NUMBER, GET_EPHEMERALS, LS, STAT, SYNC
from client.zkcli.commands.sessions import CLOSE, VERSION
from client.zkcli.commands.watches import ADD_WATCH, REMOVE_WATCHES
from client.zkcli.commands.writing import CREATE, DELETE, DELETE_ALL, SET

COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        *(LS, GET, STAT, GET_EPHEMERALS, GET_ALL_CHILDREN_NUMBER, SYNC),
        *(CREATE, SET, DELETE, DELETE_ALL),
        *(GET_ACL, SET_ACL, ADD_AUTH, WHO_AM_I),
        *(ADD_WATCH, REMOVE_WATCHES),
        *(SET_QUOTA, LIST_QUOTA, DEL_QUOTA),
        *(CONFIG, RECONFIG),
        *(CLOSE, VERSION),
    )
}

# Those that the shell itself does.
SHELL_USAGES: dict[str, str] = {
    "connect": "host:port",
    "history": "",
    "printwatches": "on|off",
    "quit": "",
    "redo": "cmdno",
}


def usage_lines() -> list[str]:
    """What is said when a command is not known."""
    usages = SHELL_USAGES | {command.name: command.usage for command in COMMANDS.values()}
    return [
        "ZooKeeper -server host:port -client-configuration properties-file cmd args",
        *(f"\t{name} {usages[name]}" for name in command_names()),
    ]


def command_names() -> list[str]:
    return sorted([*COMMANDS, *SHELL_USAGES])
