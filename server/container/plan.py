"""From variables, a command and facts about the disk to a plan: what to write, what to say, what to run.

In two steps, because directories change hands between them: `draft_for` looks at the variables alone, and
`settle` looks at the disk as the user that the server will run as. Either raises `Refused`, and nothing has
been written then.

Pure.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

import attrs

from quorum.server_lines import Ensemble, is_membership_key, read_ensemble
from quorum.setting_text import BadValue
from server.config import Note
from server.container.bitnami import ALLOWS_OPEN, draft_bitnami
from server.container.commands import BITNAMI_COMMANDS, CONFLUENT_COMMAND, Command
from server.container.config_lines import Line, example_of, problem_with
from server.container.confluent import asks_for_confluent, draft_confluent
from server.container.draft import Draft
from server.container.facts import Facts, not_ours, read_own
from server.container.official import draft_official
from server.container.refused_security import (
    refuse_security,
    refuse_security_flags,
    refuse_security_script,
    refuse_security_settings,
)
from server.container.server_ids import choose_id, id_path
from server.container.variables import Refused, Variables
from server.jvm_flags import ENVIRONMENT_FILES

USUAL_CONFIG = "/conf/zoo.cfg"
CLIENT_PORT_DEFAULT = "2181"
_BITNAMI_VARIABLES = (*ALLOWS_OPEN, "ZOO_SERVER_ID", "ZOO_PORT_NUMBER")
_SECRET_MODE, _PUBLIC_MODE = 0o600, 0o644
_KEY = re.compile(r"#?[\w.-]+", re.ASCII)  # ZOO_CFG_EXTRA may hold comments
_SERVER_KEY = re.compile(r"server\.0*(\d+)", re.ASCII)
_SECRET_KEY = re.compile(r"password|digest", re.IGNORECASE)


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
    command: Command
    config_file: str | None
    needs_shell: bool


@attrs.frozen
class _Configuration:
    """The configuration to be used: where it is, what must be written for that, and what it says."""

    file: str
    files: tuple[WriteFile, ...]
    settings: Mapping[str, str]
    notes: tuple[Note, ...]


def draft_for(command: Command, variables: Variables) -> Draft:
    """What the variables ask for; which image's they are follows from their names and the command."""
    refuse_security(variables)
    if command.is_server:
        refuse_security_flags(variables)
    first = command.words[0]
    if asks_for_confluent(variables) or first == CONFLUENT_COMMAND:
        return draft_confluent(variables)
    if first in BITNAMI_COMMANDS or any(name in variables for name in _BITNAMI_VARIABLES):
        return draft_bitnami(variables)
    return draft_official(variables)


def refuse_bad_values(draft: Draft, variables: Variables, facts: Facts) -> None:
    """Raise `Refused` for a value that cannot be, unless a configuration is there that wins over it."""
    if _existing(draft, facts) is None:
        _ensemble(draft.lines, variables)


def settle(command: Command, draft: Draft, variables: Variables, facts: Facts) -> Plan:
    """What to do about a draft on this machine."""
    existing = _existing(draft, facts)
    if command.is_server:
        _refuse_security_on_disk(draft, existing or {}, facts)
    ensemble = _ensemble(draft.lines, variables) if existing is None else _ensemble_in(existing)
    my_id, id_notes = choose_id(draft, variables, facts, ensemble.members)
    if existing is None:
        configuration = _made(draft, my_id, ensemble, variables, facts)
    else:
        overridden = _overridden(draft, existing, variables)
        configuration = _Configuration(draft.config_file, (), existing, overridden)
    if command.is_server:
        _check_directories(configuration.settings, facts)
    file = configuration.file
    return Plan(
        files=configuration.files + _id_file(draft, my_id, facts),
        link=None if file == USUAL_CONFIG else (USUAL_CONFIG, file),
        notes=(*draft.notes, *id_notes, *configuration.notes),
        exports={**draft.exports, **_script_exports(file)},
        command=command,
        config_file=file if command.starts else None,
        needs_shell=any(facts.owner(path) is not None for path in _environment_files(draft)),
    )


# -- a configuration that is there already


def _existing(draft: Draft, facts: Facts) -> dict[str, str] | None:
    """The settings in the file that wins over the variables, if there is one."""
    if draft.is_made_at_each_start and facts.can_write(_parent(draft.config_file)):
        return None
    content = read_own(facts, draft.config_file)
    if content is None:
        return None
    from server.zoo_cfg_syntax import read_properties  # its library takes 20 ms to import

    try:
        return {key: entry.value for key, entry in read_properties(content).items()}
    except BadValue:
        return {}  # the server says what is wrong with it


def _refuse_security_on_disk(draft: Draft, existing: Mapping[str, str], facts: Facts) -> None:
    refuse_security_settings(existing, draft.config_file)
    for path in _environment_files(draft):
        script = read_own(facts, path) or b""
        refuse_security_script(script.decode("latin-1"), path)


def _ensemble_in(existing: Mapping[str, str]) -> Ensemble:
    try:
        return read_ensemble(existing, multi_address=True)
    except BadValue:
        return Ensemble()  # the server says what is wrong with it


def _overridden(draft: Draft, existing: Mapping[str, str], variables: Variables) -> tuple[Note, ...]:
    """One note that names the variables that would have led to another file."""
    overridden: dict[str, str] = {}
    for line in draft.lines:
        is_elsewhere = is_membership_key(line.key) and "dynamicConfigFile" in existing
        if line.variable is None or is_elsewhere or existing.get(line.key) == line.value:
            continue
        there = f"no {line.key}"
        if line.key in existing:
            is_secret = line.variable in variables.secret or _SECRET_KEY.search(line.key)
            there = f"another {line.key}" if is_secret else f"{line.key}={existing[line.key]}"
        overridden.setdefault(line.variable, there)
    if not overridden:
        return ()
    named = ", ".join(f"{name} ({there} there)" for name, there in overridden.items())
    return (Note("warning", f"{draft.config_file} is there already and wins over the environment: {named}"),)


# -- a configuration made from variables


def _ensemble(lines: Iterable[Line], variables: Variables) -> Ensemble:
    """The servers that lines name; every line is checked first."""
    lines = tuple(lines)
    _refuse_duplicate_ids(lines)
    by_key = {line.key: line for line in lines}
    for line in by_key.values():
        _check(line, variables)
    try:
        return read_ensemble({key: line.value for key, line in by_key.items()}, multi_address=True)
    except BadValue as problem:
        line = by_key[problem.key or ""]
        raise Refused(
            f"{line.variable}: {line.text}: {problem.wording.strip()}; write it like {_servers_like(line)}"
        ) from None


def _servers_like(line: Line) -> str:
    """A valid value of the variable that a server line came from, in that variable's own syntax."""
    example = "zoo1:2888:3888;zoo2:2888:3888;zoo3:2888:3888"
    if line.written is not None:
        example = " ".join(f"server.{n}=zoo{n}:2888:3888;2181" for n in (1, 2, 3))
    return f"{line.variable}={example}"


def _refuse_duplicate_ids(lines: Iterable[Line]) -> None:
    """Refuse a variable that gives one id to two servers: the first of them would be left out in silence."""
    seen: dict[tuple[str | None, str], Line] = {}
    for line in lines:
        if match := _SERVER_KEY.fullmatch(line.key):
            first = seen.setdefault((line.variable, match[1]), line)
            if first.value != line.value:
                raise Refused(
                    f"{line.variable}: {first.text} and {line.text} have the same id; "
                    f"write it like {_servers_like(line)}"
                )


def _check(line: Line, variables: Variables) -> None:
    """Refuse a value that the server would refuse, or would read as something else."""
    variable = line.variable or line.key
    subject = variables.shown(variable) if line.written is None else f"{line.written} in {variable}"
    if not _KEY.fullmatch(line.key):
        raise Refused(
            f"{line.key!a} in {variable.splitlines()[0]} is no key of zoo.cfg: "
            "a key has letters, digits, dots, dashes and underscores, such as tickTime"
        )
    if "\n" in line.value or "\r" in line.value:
        raise Refused(f"{subject}: a setting is one line; remove the line break")
    problem = problem_with(line)
    if problem is not None:
        wording = "not a valid value" if variable in variables.secret else problem.wording
        where = f"{variable}=" if line.written is None else f"{line.key}="
        raise Refused(f"{subject}: {wording}; write it like {where}{example_of(line.key)}")


def _made(
    draft: Draft, my_id: int | None, ensemble: Ensemble, variables: Variables, facts: Facts
) -> _Configuration:
    """The configuration as a file: where it belongs or, if nothing can be written there, beside the data."""
    _check_membership(draft, my_id, ensemble)
    lines, notes = _with_client_port(draft.lines, my_id, ensemble)
    has_secrets = any(line.variable in variables.secret for line in lines)
    content = "".join(f"{line.text}\n" for line in lines).encode("utf-8", "surrogateescape")
    mode = _SECRET_MODE if has_secrets else _PUBLIC_MODE
    settings = {line.key: line.value for line in lines}
    conf_dir, name = _parent(draft.config_file), PurePosixPath(draft.config_file).name
    if facts.can_write(conf_dir):
        written = WriteFile(draft.config_file, content, mode)
        return _Configuration(draft.config_file, (written,), settings, notes)
    file = f"{draft.data_dir}/conf/{name}"
    note = Note("info", f"{conf_dir} cannot be written: the configuration from the environment is in {file}")
    files = (WriteFile(file, content, mode), *_copies(draft, facts))
    return _Configuration(file, files, settings, (*notes, note))


def _copies(draft: Draft, facts: Facts) -> Iterable[WriteFile]:
    """The files that the scripts look for beside a configuration."""
    for path in _environment_files(draft):
        content = read_own(facts, path)
        if content is not None:
            name = PurePosixPath(path).name
            yield WriteFile(f"{draft.data_dir}/conf/{name}", content, _SECRET_MODE)


def _check_membership(draft: Draft, my_id: int | None, ensemble: Ensemble) -> None:
    standalone = next((line.value for line in draft.lines if line.key == "standaloneEnabled"), "true")
    is_alone = len(ensemble.voters) <= 1 and standalone.lower() == "true"
    if my_id is None or is_alone or not ensemble.members or my_id in ensemble.members:
        return
    ids = ", ".join(map(str, ensemble.members))
    raise Refused(
        f"This is server {my_id} ({draft.id_variable}), and the servers are {ids}: "
        f"add its line, or set one of these, such as {draft.id_variable}={next(iter(ensemble.members))}"
    )


def _with_client_port(
    lines: tuple[Line, ...], my_id: int | None, ensemble: Ensemble
) -> tuple[tuple[Line, ...], tuple[Note, ...]]:
    """Lines that open a client port: a server that nobody can reach is not what anybody wants."""
    me = ensemble.members.get(my_id) if my_id is not None else None
    is_named = any(line.key in ("clientPort", "dynamicConfigFile") for line in lines)
    if is_named or (me is not None and me.client is not None):
        return lines, ()
    reason, example = "No setting opens a client port", ""
    if me is not None:
        reason = f"server.{my_id} names no client port"
        example = f"; to choose one, write server.{my_id}={me};{CLIENT_PORT_DEFAULT}"
    note = Note("warning", f"{reason}: clients are served at {CLIENT_PORT_DEFAULT}{example}")
    return (*lines, Line("clientPort", CLIENT_PORT_DEFAULT)), (note,)


# -- other files and directories


def _id_file(draft: Draft, my_id: int | None, facts: Facts) -> tuple[WriteFile, ...]:
    if my_id is None or facts.owner(id_path(draft)) is not None:
        return ()
    return (WriteFile(id_path(draft), f"{my_id}\n".encode()),)


def _check_directories(settings: Mapping[str, str], facts: Facts) -> None:
    """What the server must write to can be written; what is missing, it makes or names itself."""
    for key in ("dataDir", "dataLogDir"):
        if key in settings:
            for directory in (settings[key], f"{settings[key]}/version-2"):
                if facts.owner(directory) is not None and not facts.can_write(directory):
                    raise not_ours(facts, directory, "written")


def _script_exports(config_file: str) -> dict[str, str]:
    """What the scripts need in order to find the configuration."""
    exports = {"ZOOCFGDIR": _parent(config_file)}
    name = PurePosixPath(config_file).name
    return exports if name == "zoo.cfg" else {**exports, "ZOOCFG": name}


def _environment_files(draft: Draft) -> list[str]:
    return [f"{_parent(draft.config_file)}/{name}" for name in ENVIRONMENT_FILES]


def _parent(path: str) -> str:
    return str(PurePosixPath(path).parent)
