"""The -D settings that ZooKeeper's start scripts would hand to the JVM.

Deployments put server settings there (`jute.maxbuffer` can be set nowhere else), so they are honoured without
any JVM. The scripts source `zookeeper-env.sh` and then `java.env` beside zoo.cfg, and start Java with, in
this order, their own -D settings, $SERVER_JVMFLAGS and $JVMFLAGS; of two settings of one property the later
wins.

No shell is run: of those files only assignments are read, and any other line is reported instead of obeyed.
Where one of our own scripts has sourced them already (`server/tools/bin`), they are not read again.
"""

import re
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path

import attrs

ENVIRONMENT_FILES = ("zookeeper-env.sh", "java.env")
SOURCED_ALREADY = "TRIOKEEPER_ENV_SOURCED"

_WORD_PART = re.compile(
    r"""'(?P<literal>[^']*)'                        # single quotes: taken as it is
      | "(?P<quoted>(?:[^"\\`]|\\.)*)"             # double quotes: variables count inside
      | \\(?P<escaped>.)
      | (?P<plain>[^\s'"\\;&|<>()`#]+|(?<=\S)\#)   # a # inside a word begins no comment
    """,
    re.VERBOSE | re.DOTALL,
)
_EXPANDABLE = re.compile(
    r"""\\(?P<escaped>[$`"\\])
      | \$\{(?P<braced>\w+)(?::?-(?P<default>[^}]*))?\}
      | \$(?P<name>[A-Za-z_]\w*)
      | (?P<needs_shell>\$)
    """,
    re.VERBOSE,
)
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<append>\+?)=")
_EXPORTED_NAMES = re.compile(r"[A-Za-z_]\w*(?:\s+[A-Za-z_]\w*)*")


@attrs.frozen
class JvmFlags:
    """What the scripts would have passed: properties, and flags that only mean something to a JVM.

    `unread` lists the lines of the environment files that are no assignment, as `file:line: text`.
    """

    properties: Mapping[str, str]
    jvm_only: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def read_jvm_flags(environ: Mapping[str, str], conf_dir: Path | None) -> JvmFlags:
    """The flags that starting a server by script, in this environment and conf directory, would give."""
    variables = dict(environ)
    unread: list[str] = []
    if SOURCED_ALREADY in environ:
        conf_dir = None
    for file in [conf_dir / name for name in ENVIRONMENT_FILES] if conf_dir is not None else []:
        try:
            text = file.read_text(encoding="utf-8", errors="surrogateescape")
        except FileNotFoundError:
            continue
        except OSError as error:
            unread.append(f"{file}: {error.strerror}")
        else:
            unread += (f"{file}:{problem}" for problem in source_assignments(text, variables))
    properties, jvm_only = split_flags(command_line_flags(variables))
    return JvmFlags(properties, jvm_only, tuple(unread))


def command_line_flags(variables: Mapping[str, str]) -> list[str]:
    """The flags in the order in which Java sees them."""
    flags = variables.get("JAVA_TOOL_OPTIONS", "").split()
    if variables.get("ZOO_DATADIR_AUTOCREATE_DISABLE"):
        flags.append("-Dzookeeper.datadir.autocreate=false")
    for variable, prop in (("ZOO_LOG_DIR", "zookeeper.log.dir"), ("ZOO_LOG_FILE", "zookeeper.log.file")):
        if variables.get(variable):
            flags.append(f"-D{prop}={variables[variable]}")
    if variables.get("ZK_SERVER_HEAP"):
        flags.append(f"-Xmx{variables['ZK_SERVER_HEAP']}m")
    return flags + variables.get("SERVER_JVMFLAGS", "").split() + variables.get("JVMFLAGS", "").split()


def split_flags(flags: list[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The -D settings as a mapping, and all other flags."""
    properties: dict[str, str] = {}
    jvm_only: list[str] = []
    for flag in flags:
        if flag.startswith("-D"):
            key, _, value = flag[2:].partition("=")
            properties[key] = value
        else:
            jvm_only.append(flag)
    return properties, tuple(jvm_only)


def source_assignments(text: str, variables: MutableMapping[str, str]) -> list[str]:
    """Carry out a shell file's assignments on `variables`; answer the lines that are something else."""
    unread = []
    for line_number, line in _logical_lines(text):
        try:
            assignments = _read_assignments(line, variables)
        except _NotAnAssignment:
            unread.append(f"{line_number}: {line.strip()}")
        else:
            variables.update(assignments)
    return unread


class _NotAnAssignment(Exception):
    """The line needs a shell."""


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, where a backslash at the end or an open quote continues a line."""
    pending, started_at = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        if not pending:
            started_at = number
        if line.endswith("\\"):
            pending += line[:-1]
            continue
        pending += line
        if _has_open_quote(pending):
            pending += "\n"
            continue
        yield started_at, pending
        pending = ""
    if pending:
        yield started_at, pending


def _has_open_quote(line: str) -> bool:
    """Whether a quote opened on this line is still open at its end (comments may hold lone apostrophes)."""
    without_closed = re.sub(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"", "", line, flags=re.DOTALL)
    code = re.sub(r"(^|\s)#.*", "", without_closed, flags=re.DOTALL)
    return "'" in code or '"' in code


def _read_assignments(line: str, variables: Mapping[str, str]) -> dict[str, str]:
    """The assignments on one line, which may open with `export`; empty for comments and blank lines."""
    rest = line.strip()
    if rest.startswith("export "):
        rest = rest.removeprefix("export ").strip()
        if _EXPORTED_NAMES.fullmatch(rest):
            return {}  # exporting what is already set changes nothing here
    assigned: dict[str, str] = {}
    while rest and not rest.startswith("#"):
        match = _ASSIGNMENT.match(rest)
        if match is None:
            raise _NotAnAssignment
        known = {**variables, **assigned}
        value, rest = _read_word(rest[match.end() :], known)
        before = known.get(match["name"], "") if match["append"] else ""
        assigned[match["name"]] = before + value
    return assigned


def _read_word(text: str, variables: Mapping[str, str]) -> tuple[str, str]:
    """The first shell word of `text` with quotes and variables resolved, and what follows it."""
    value, position = "", 0
    while position < len(text) and not text[position].isspace() and text[position] != ";":
        part = _WORD_PART.match(text, position)
        if part is None:
            raise _NotAnAssignment
        value += _resolve(part, variables)
        position = part.end()
    return value, text[position:].lstrip(" \t;")


def _resolve(part: re.Match[str], variables: Mapping[str, str]) -> str:
    if part["literal"] is not None:
        return part["literal"]
    if part["escaped"] is not None:
        return part["escaped"]
    text = part["plain"] if part["quoted"] is None else part["quoted"]
    return _EXPANDABLE.sub(lambda match: _expanded(match, variables), text)


def _expanded(match: re.Match[str], variables: Mapping[str, str]) -> str:
    if match["needs_shell"]:
        raise _NotAnAssignment
    if match["escaped"]:
        return match["escaped"]
    return variables.get(match["braced"] or match["name"]) or match["default"] or ""
