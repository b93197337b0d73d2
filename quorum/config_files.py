"""The members on disk, beside the configuration file `F` that the operator wrote.

    F.dynamic.<version>   the members in force, one line each, sorted; the version is in the name alone
    F                     names that file; its own server, group and weight lines are gone by then
    F.dynamic.next        the newest members proposed, with their version; gone once they are in force
    F.bak                 F as it was at the last start at which it still listed the members itself

Each file is replaced as a whole, and `F` only after the file it will name: whatever is lost in a crash, `F`
leads to members that were in force. An operator may have good reasons for a read-only configuration: that we
cannot write here stops nobody, as in the original, and is only said in the log. There is one exception:
members that are proposed must be on disk before they are acknowledged (`save_next`).
"""

from pathlib import Path

from eventlog import log
from jute.properties_text import escaped, pieces
from persistence.disk import Disk, read_chunks, replace_file
from persistence.errors import DataDirError
from quorum.checked_lines import checked, is_damaged
from quorum.errors import MembersNotSaved
from quorum.server_lines import Ensemble, config_text, is_membership_key, read_config_text
from quorum.setting_text import BadValue, trimmed

_DYNAMIC_FILE = "dynamicConfigFile"
_SUPERSEDED = (_DYNAMIC_FILE, "peerType")
_CLIENT_ADDRESS = ("clientPort", "clientPortAddress")


class ConfigFiles:
    """The files around one `F`."""

    def __init__(self, disk: Disk, file: Path) -> None:
        self._disk = disk
        self._file = file.resolve()

    @property
    def next_file(self) -> Path:
        return self._beside(".dynamic.next")

    def back_up(self) -> None:
        """Keep `F` as the operator wrote it: soon it will no longer list the members."""
        try:
            replace_file(self._disk, self._beside(".bak"), self._read(self._file), like=self._file)
        except OSError as failure:
            _report(failure)

    def save_next(self, ensemble: Ensemble) -> None:
        """Raises MembersNotSaved."""
        try:
            lines = checked(_sorted_lines(config_text(ensemble)))
            replace_file(self._disk, self.next_file, lines, like=self._file)
        except OSError as failure:
            raise self._not_saved(failure) from failure

    def check_writable(self) -> None:
        """Raises MembersNotSaved if `save_next` is bound to. Nothing is written: anybody may ask for this."""
        if not self._disk.is_writable(self._file.parent):
            raise self._not_saved("the directory is read-only")

    def _not_saved(self, failure: OSError | str) -> MembersNotSaved:
        return MembersNotSaved(
            f"{self.next_file} cannot be written: {failure}. Members change only where every voter can write "
            "beside its configuration file: make room there, or let the server write"
        )

    def load_next(self) -> Ensemble | None:
        """What was proposed when we stopped, if it is not in force yet.

        It was acknowledged, perhaps, and a crash does not leave it in part: if it cannot be read it is
        damaged, and we must not go on as if it had never been. Raises DataDirError then."""
        if not self._disk.exists(self.next_file):
            return None
        content = self._read(self.next_file)
        try:
            if is_damaged(content):
                raise BadValue("its check is of other lines", "")
            return read_config_text(content.decode("latin-1"), multi_address=True)
        except BadValue as failure:
            raise DataDirError(
                f"the members proposed last cannot be read: {failure}. Quorums could be counted without them",
                file=self.next_file,
                offset=0,
                remedy="Copy the file from another member, or remove it if no reconfiguration was under way",
            ) from failure

    def save_active(self, ensemble: Ensemble, *, lists_client_address: bool) -> bool:
        """Say whether it could be saved. `lists_client_address`: so does our own line, which `F` must not
        contradict."""
        lines, _, _ = config_text(ensemble).rpartition("\nversion=")
        dynamic = self._beside(f".dynamic.{ensemble.version:x}")
        dropped = _SUPERSEDED + (_CLIENT_ADDRESS if lists_client_address else ())
        try:
            replace_file(self._disk, dynamic, checked(_sorted_lines(lines)), like=self._file)
            static = without_members(self._read(self._file), dropped)
            replace_file(self._disk, self._file, static + _naming(dynamic))
        except (OSError, ValueError) as failure:  # ValueError: somebody has spoilt the file meanwhile
            _report(failure)
            return False
        return True

    def forget_next(self) -> None:
        try:
            if self._disk.exists(self.next_file):
                self._disk.unlink(self.next_file)
                self._disk.sync_directory(self.next_file.parent)
        except OSError as failure:
            _report(failure)

    def _beside(self, suffix: str) -> Path:
        return self._file.with_name(self._file.name + suffix)

    def _read(self, file: Path) -> bytes:
        return b"".join(read_chunks(self._disk, file))


def without_members(content: bytes, dropped: tuple[str, ...]) -> bytes:
    """A configuration file without the lines about members and those with the keys in `dropped`.

    All else stays as it was written, comments too.
    """
    kept = [
        piece.source
        for piece in pieces(content.decode("latin-1"))
        if piece.key is None or not _is_dropped(trimmed(piece.key), dropped)
    ]
    text = "".join(kept)
    return (text if text.endswith("\n") or not text else text + "\n").encode("latin-1")


def _naming(dynamic: Path) -> bytes:
    return f"{_DYNAMIC_FILE}={escaped(str(dynamic))}\n".encode("ascii")


def _is_dropped(key: str, dropped: tuple[str, ...]) -> bool:
    return is_membership_key(key) or key in dropped


def _sorted_lines(text: str) -> bytes:
    return "\n".join(sorted(text.split("\n"))).encode("latin-1", "backslashreplace")


def _report(failure: Exception) -> None:
    log.error("members_not_saved", reason=str(failure))
