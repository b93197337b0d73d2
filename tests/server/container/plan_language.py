"""The language of testdata/: a container's environment above a line of dashes, the plan for it below.

    run zkServer.sh start-foreground       the command; this is what runs if there is no such line
    host zoo2                              the machine's name
    uid 1000                               who runs it, after any change of user
    file /data/myid 3                      a file that is there; \\n in its text is a new line, \\0 a zero
    owner /data 999                        who a path belongs to; the files of `file` are the user's own
    readonly /conf                         a directory that this user cannot write
    NAME=value                             a variable

A blank line ends a case; `#` begins a comment. Of zoo.cfg those lines are shown that the official image's
defaults do not have, and all of them if the case has a line `whole`.
"""

import shlex
from collections.abc import Collection, Iterator

import attrs

from server.container.commands import understand
from server.container.plan import Plan, draft_for, settle
from server.container.variables import Refused, read_variables

USUAL_DIRECTORIES = (
    "/conf /data /datalog /logs /bitnami/zookeeper/data /opt/bitnami/zookeeper/conf /etc/kafka"
    " /var/lib/zookeeper/data /var/lib/zookeeper/log".split()
)
USUAL_LINES = (
    "dataDir=/data dataLogDir=/datalog tickTime=2000 initLimit=5 syncLimit=2 autopurge.snapRetainCount=3"
    " autopurge.purgeInterval=0 maxClientCnxns=60 standaloneEnabled=true admin.enableServer=true"
    " server.1=localhost:2888:3888;2181".split()
)


@attrs.define
class MachineInMemory:
    """The facts about a machine that a case describes."""

    uid: int = 1000
    hostname: str = "3f1b0c9d2a77"
    files: dict[str, bytes] = attrs.field(factory=dict)
    owners: dict[str, int] = attrs.field(factory=lambda: dict.fromkeys(USUAL_DIRECTORIES, 1000))
    readonly: set[str] = attrs.field(factory=set)
    unreadable: set[str] = attrs.field(factory=set)

    def read(self, path: str) -> bytes | None:
        if path in self.unreadable:
            raise PermissionError
        return self.files.get(path)

    def read_text(self, path: str) -> str:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory")
        return self.files[path].decode()

    def can_write(self, directory: str) -> bool:
        return directory in self.owners and directory not in self.readonly

    def owner(self, path: str) -> int | None:
        return self.owners.get(path, self.uid if path in self.files else None)


def play(text: str) -> str:
    """The text again, with what really is planned below each line of dashes."""
    return "\n".join(_answered(case) for case in text.rstrip("\n").split("\n\n")).rstrip("\n") + "\n"


def _answered(case: str) -> str:
    above = case.partition("----\n")[0].removesuffix("----")
    lines = [line for line in above.splitlines() if line and not line.startswith("#")]
    return f"{above}----\n" + "".join(f"{line}\n" for line in _planned(lines))


def _planned(lines: list[str]) -> Iterator[str]:
    machine, environ, words = MachineInMemory(), {}, ["zkServer.sh", "start-foreground"]
    for line in lines:
        match line.split(" ", 2):
            case ["run", *_]:
                words = shlex.split(line.removeprefix("run"))
            case ["whole"]:
                pass
            case ["host", name]:
                machine.hostname = name
            case ["uid", uid]:
                machine.uid = int(uid)
            case ["file", path, text]:
                machine.files[path] = text.replace("\\n", "\n").replace("\\0", "\0").encode()
            case ["owner", path, uid]:
                machine.owners[path] = int(uid)
            case ["readonly", path]:
                machine.readonly.add(path)
            case ["unreadable", path]:
                machine.unreadable.add(path)
            case _:
                name, is_variable, value = line.partition("=")
                assert is_variable, f"what is {line}?"
                environ[name] = value.replace("\\n", "\n")
    try:
        yield from _plan_text(_plan(words, environ, machine), USUAL_LINES if "whole" not in lines else ())
    except Refused as refusal:
        yield f"refused, exit code {refusal.exit_code}: {refusal}"


def _plan(words: list[str], environ: dict[str, str], machine: MachineInMemory) -> Plan:
    command = understand(words)
    variables = read_variables(environ, machine.read_text)
    return settle(command, draft_for(command, variables), variables, machine)


def _plan_text(plan: Plan, hidden: Collection[str]) -> Iterator[str]:
    for file in plan.files:
        yield f"write {file.path} mode {file.mode:o}"
        yield from (f"    {line}" for line in file.content.decode().split("\n")[:-1] if line not in hidden)
    if plan.link is not None:
        yield f"link {plan.link[0]} to {plan.link[1]}"
    yield from (f"{note.level}: {note.message}" for note in plan.notes)
    for name, value in plan.exports.items():
        if (name, value) != ("ZOOCFGDIR", "/conf"):
            yield f"export {name}={value}"
    if plan.config_file is None:
        user = " as the server's user" if plan.command.is_server else ""
        yield f"exec {shlex.join(plan.command.words)}{user}"
    else:
        yield f"start {plan.config_file}" + (" by zkServer.sh" if plan.needs_shell else "")
