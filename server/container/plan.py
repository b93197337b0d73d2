"""From variables, a command and facts about the disk to a plan: what to write, what to say, what to run.

In two steps, because directories change hands between them: `draft_for` looks at the variables alone, and
`settle` looks at the disk as the user that the server will run as. Either raises `Refused`, and nothing has
been written then.

Pure: facts come by the `Facts` protocol.
"""

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Protocol

import attrs

from quorum.server_lines import Ensemble, Member, is_membership_key, read_ensemble
from quorum.setting_text import LONG_BITS, BadValue, parse_integer
from server.config import Note
from server.container.bitnami import ALLOWS_OPEN, draft_bitnami
from server.container.commands import BITNAMI_COMMANDS, CONFLUENT_COMMAND, Command
from server.container.config_lines import Line, example_of, problem_with
from server.container.confluent import asks_for_confluent, draft_confluent
from server.container.draft import Draft
from server.container.official import draft_official
from server.container.refused_security import refuse_security, refuse_security_lines
from server.container.server_ids import id_by_name
from server.container.variables import EXIT_DATA_DIR, Refused, Variables
from server.jvm_flags import ENVIRONMENT_FILES

USUAL_CONFIG = "/conf/zoo.cfg"
CLIENT_PORT_DEFAULT = "2181"
_BITNAMI_VARIABLES = (*ALLOWS_OPEN, "ZOO_SERVER_ID", "ZOO_PORT_NUMBER")
_SECRET_MODE, _PUBLIC_MODE = 0o600, 0o644


class Facts(Protocol):
    """What a plan must know of the machine, as the user that the server will run as."""

    @property
    def uid(self) -> int: ...

    @property
    def hostname(self) -> str: ...

    def read(self, path: str) -> bytes | None:
        """The contents of a file, None if there is none; PermissionError if it may not be read."""

    def can_write(self, directory: str) -> bool:
        """Whether files can be made in a directory; no if there is none."""

    def owner(self, path: str) -> int | None:
        """The user id that a path belongs to, None if there is no such path."""


@attrs.frozen
class WriteFile:
    path: str
    content: bytes
    mode: int = _PUBLIC_MODE


@attrs.frozen(kw_only=True)
class Plan:
    """What is to be done, in this order: files, the link if nothing is in its place, notes, the command.

    `config_file` is the file that a server is started with, None if the command is to run as it is.
    `needs_shell`: files beside it are shell scripts that set the server's environment.
    """

    files: tuple[WriteFile, ...]
    link: tuple[str, str] | None  # where, and to what
    notes: tuple[Note, ...]
    exports: Mapping[str, str]
    command: tuple[str, ...]
    config_file: str | None
    needs_shell: bool


def draft_for(command: Command, variables: Variables) -> Draft:
    """What the variables ask for; which image's they are follows from their names and the command."""
    refuse_security(variables)
    first = command.words[0]
    if asks_for_confluent(variables) or first == CONFLUENT_COMMAND:
        draft = draft_confluent(variables)
    elif first in BITNAMI_COMMANDS or any(name in variables for name in _BITNAMI_VARIABLES):
        draft = draft_bitnami(variables)
    else:
        draft = draft_official(variables)
    refuse_security_lines(draft.lines)
    return draft


def settle(command: Command, draft: Draft, variables: Variables, facts: Facts) -> Plan:
    """What to do about a draft on this machine."""
    existing = _existing(draft, facts)
    if existing is None:
        _check_lines(draft.lines, variables)
        members = _members(draft.lines)
    else:
        members = _members_in(existing)
    my_id, id_notes = _choose_id(draft, variables, facts, members)
    notes = [*draft.notes, *id_notes]
    if existing is None:
        _check_membership(draft, my_id, members)
        lines, port_notes = _with_client_port(draft.lines, my_id, members)
        files, config_file, where_notes = _place(draft, lines, variables, facts)
        notes += [*port_notes, *where_notes]
    else:
        files, config_file = [], draft.config_file
        notes += _overridden(draft, existing)
    if my_id is not None:
        files += _id_file(draft, my_id, facts)
    if command.is_server:
        _check_directories(draft, existing, facts)
    return Plan(
        files=tuple(files),
        link=None if config_file == USUAL_CONFIG else (USUAL_CONFIG, config_file),
        notes=tuple(notes),
        exports={**draft.exports, **_script_exports(config_file)},
        command=command.words,
        config_file=(command.config_file or config_file) if command.starts else None,
        needs_shell=any(
            facts.owner(f"{_parent(draft.config_file)}/{name}") is not None for name in ENVIRONMENT_FILES
        ),
    )


# -- a configuration that is there already


def _existing(draft: Draft, facts: Facts) -> dict[str, str] | None:
    """The settings in the file that wins over the variables, if there is one."""
    file = draft.config_file
    if draft.is_made_at_each_start and facts.can_write(_parent(file)):
        return None
    try:
        content = facts.read(file)
    except PermissionError:
        raise _not_ours(file, "read", facts) from None
    if content is None:
        return None
    from server.zoo_cfg_syntax import read_properties  # its library takes 20 ms to import

    try:
        return {key: entry.value for key, entry in read_properties(content).items()}
    except BadValue:
        return {}  # the server says what is wrong with it


def _overridden(draft: Draft, existing: Mapping[str, str]) -> list[Note]:
    """One note that names the variables that would have led to another file."""
    overridden: dict[str, str] = {}
    for line in draft.lines:
        is_elsewhere = is_membership_key(line.key) and "dynamicConfigFile" in existing
        if line.variable is None or is_elsewhere or existing.get(line.key) == line.value:
            continue
        there = f"{line.key}={existing[line.key]}" if line.key in existing else f"no {line.key}"
        overridden.setdefault(line.variable, there)
    if not overridden:
        return []
    named = ", ".join(f"{name} ({there} there)" for name, there in overridden.items())
    return [Note("warning", f"{draft.config_file} is there already and wins over the environment: {named}")]


# -- a configuration made from variables


def _check_lines(lines: Iterable[Line], variables: Variables) -> None:
    for line in lines:
        variable = line.variable or line.key
        if "\n" in line.value or "\r" in line.value:
            raise Refused(f"{variables.shown(variable)}: a setting is one line; remove the line break")
        problem = problem_with(line)
        if problem is not None:
            example = example_of(line.key)
            if line.written is not None:
                example = f"{line.key}={example}"
            wording = "not a valid value" if variable in variables.secret else problem.wording
            raise Refused(f"{variables.shown(variable)}: {wording}; write it like {variable}={example}")


def _members(lines: Iterable[Line]) -> Ensemble:
    by_key = {line.key: line for line in lines}
    try:
        return read_ensemble({key: line.value for key, line in by_key.items()}, multi_address=True)
    except BadValue as problem:
        line = by_key[problem.key or ""]
        example = "server.1=zoo1:2888:3888;2181 server.2=zoo2:2888:3888;2181 server.3=zoo3:2888:3888;2181"
        if line.written is None:
            example = "zoo1:2888:3888;zoo2:2888:3888;zoo3:2888:3888"
        raise Refused(
            f"{line.variable}: {line.text}: {problem.wording.strip()}; "
            f"write it like {line.variable}={example}"
        ) from None


def _members_in(existing: Mapping[str, str]) -> Ensemble:
    try:
        return read_ensemble(existing, multi_address=True)
    except BadValue:
        return Ensemble()  # the server says what is wrong with it


def _check_membership(draft: Draft, my_id: str | None, members: Ensemble) -> None:
    is_alone = (
        len(members.voters) <= 1
        and {line.key: line.value for line in draft.lines}.get("standaloneEnabled", "true").lower() == "true"
    )
    if my_id is None or is_alone or not members.members or int(my_id) in members.members:
        return
    ids = ", ".join(map(str, members.members))
    raise Refused(
        f"This is server {my_id} ({draft.id_variable}), and the servers are {ids}: "
        f"add its line, or set one of these, such as {draft.id_variable}={next(iter(members.members))}"
    )


def _with_client_port(
    lines: tuple[Line, ...], my_id: str | None, members: Ensemble
) -> tuple[tuple[Line, ...], list[Note]]:
    """Lines that open a client port: a server nobody can reach is not what anybody wants."""
    keys = {line.key for line in lines}
    me = members.members.get(int(my_id)) if my_id is not None else None
    if keys & {"clientPort", "dynamicConfigFile"} or (me is not None and me.client is not None):
        return lines, []
    reason, example = "No setting opens a client port", ""
    if me is not None:
        reason = f"server.{my_id} names no client port"
        example = f"; to choose one, write server.{my_id}={me};{CLIENT_PORT_DEFAULT}"
    note = Note("warning", f"{reason}: clients are served at {CLIENT_PORT_DEFAULT}{example}")
    return (*lines, Line("clientPort", CLIENT_PORT_DEFAULT)), [note]


def _place(
    draft: Draft, lines: tuple[Line, ...], variables: Variables, facts: Facts
) -> tuple[list[WriteFile], str, list[Note]]:
    """The configuration as a file: where it belongs or, if nothing can be written there, beside the data."""
    has_secrets = any(line.variable in variables.secret for line in lines)
    content = "".join(f"{line.text}\n" for line in lines).encode("utf-8", "surrogateescape")
    mode = _SECRET_MODE if has_secrets else _PUBLIC_MODE
    conf_dir, name = _parent(draft.config_file), PurePosixPath(draft.config_file).name
    if facts.can_write(conf_dir):
        return [WriteFile(draft.config_file, content, mode)], draft.config_file, []
    file = f"{draft.data_dir}/conf/{name}"
    note = Note("info", f"{conf_dir} cannot be written: the configuration from the environment is in {file}")
    files = [WriteFile(file, content, mode)]
    for beside in ENVIRONMENT_FILES:
        copied = facts.read(f"{conf_dir}/{beside}")
        if copied is not None:
            files.append(WriteFile(f"{draft.data_dir}/conf/{beside}", copied, _SECRET_MODE))
    return files, file, [note]


# -- which server this is


def _choose_id(
    draft: Draft, variables: Variables, facts: Facts, ensemble: Ensemble
) -> tuple[str | None, list[Note]]:
    """The stored id, what the variable says, what names tell, or 1; None if there is to be no file."""
    stored = _stored_id(draft, facts)
    if draft.my_id:
        _check_id(draft, variables)
    if stored is not None:
        if draft.my_id and draft.my_id != stored:
            raise Refused(
                f"{variables.shown(draft.id_variable)}, but {_id_path(draft)} says {stored}: this is the "
                f"data of server {stored}; mount this server's own, or set {draft.id_variable}={stored}"
            )
        return (stored if _is_number(stored) else None), []
    if draft.my_id:
        return draft.my_id, []
    members = ensemble.members
    if not members and not draft.needs_id:
        return None, []
    if len(members) <= 1:
        return str(next(iter(members), 1)), []
    return _guessed_id(draft, variables, facts, members)


def _guessed_id(
    draft: Draft, variables: Variables, facts: Facts, members: Mapping[int, Member]
) -> tuple[str, list[Note]]:
    found = id_by_name((variables.get("POD_NAME"), facts.hostname), members)
    name = variables.get("POD_NAME") or facts.hostname
    if found is not None:
        note = f"{draft.id_variable} is not set: by its name, {name}, this is server {found}"
        return str(found), [Note("info", note)]
    note = (
        f"{draft.id_variable} is not set, and no server line has the host {name}: this is server 1; "
        f"set {draft.id_variable} to a different number for each server"
    )
    return "1", [Note("warning", note)]


def _check_id(draft: Draft, variables: Variables) -> None:
    if not _is_number(draft.my_id):
        raise Refused(
            f"{variables.shown(draft.id_variable)} is not a server's number; "
            f"write it like {draft.id_variable}=1"
        )


def _is_number(text: str) -> bool:
    try:
        return parse_integer(text, LONG_BITS) >= 0
    except BadValue:
        return False


def _id_path(draft: Draft) -> str:
    return f"{draft.data_dir}/myid"


def _stored_id(draft: Draft, facts: Facts) -> str | None:
    try:
        content = facts.read(_id_path(draft))
    except PermissionError:
        raise _not_ours(_id_path(draft), "read", facts) from None
    return None if content is None else content.decode("latin-1").partition("\n")[0].strip()


def _id_file(draft: Draft, my_id: str, facts: Facts) -> list[WriteFile]:
    if facts.owner(_id_path(draft)) is not None:
        return []
    return [WriteFile(_id_path(draft), f"{my_id}\n".encode())]


# -- directories


def _check_directories(draft: Draft, existing: Mapping[str, str] | None, facts: Facts) -> None:
    """What the server must write to is there and can be written."""
    settings = existing if existing is not None else {line.key: line.value for line in draft.lines}
    for key in ("dataDir", "dataLogDir"):
        if key in settings:
            for directory in (settings[key], f"{settings[key]}/version-2"):
                if facts.owner(directory) is not None and not facts.can_write(directory):
                    raise _not_ours(directory, "written", facts)


def _not_ours(path: str, action: str, facts: Facts) -> Refused:
    owner = facts.owner(path)
    if owner == facts.uid:
        return Refused(
            f"{path} cannot be {action}, though it belongs to uid {owner}: "
            "it is mounted read-only, or its mode forbids it; mount it so that its owner may",
            EXIT_DATA_DIR,
        )
    return Refused(
        f"{path} belongs to uid {owner} and cannot be {action} by uid {facts.uid}: "
        f"on the host, chown -R {facts.uid} what is mounted there, or run the container with --user {owner}",
        EXIT_DATA_DIR,
    )


def _script_exports(config_file: str) -> dict[str, str]:
    """What the scripts need in order to find the configuration."""
    exports = {"ZOOCFGDIR": _parent(config_file)}
    name = PurePosixPath(config_file).name
    return exports if name == "zoo.cfg" else {**exports, "ZOOCFG": name}


def _parent(path: str) -> str:
    return str(PurePosixPath(path).parent)
