"""The four-letter words: questions that operators ask over the client port with nothing but netcat.

A word is answered by one text, then the connection closes. Monitoring parses these texts, so their layout is
the original's to the last blank. client_protocol.py takes a word off the wire; here is what to answer.

What always holds: a word outside the whitelist neither changes nor reveals anything. An answer about all
connections, sessions or watches may be very long: it is made, and sent, in slices (client_protocol.py), and
each of its lines is of its own moment. To yield nothing is to say that time was spent.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import tzinfo
from operator import itemgetter
from typing import Final, TypeVar, cast

import attrs

from eventlog import log
from jute.java_text import java_date, java_double, java_hex
from jute.primitives import decode_ustring
from jute.zookeeper_version import FULL_VERSION
from persistence.data_dirs import DataDirs
from server.client_protocol import CLOSED, FRESH, ClientConnection
from server.config import FOUR_LETTER_WORDS, ServerConfig
from server.connection_lines import address_text, brief_line, expiry_text, full_line, reset_counts
from server.data_tree import signed64
from server.digest_history import DigestHistory
from server.metrics import MetricsReader, spelled
from server.pipeline import Pipeline
from server.standing import FOLLOWER, OBSERVER, READ_ONLY, STANDALONE, Standing
from server.watches import Watcher

_Member = TypeVar("_Member")

NOT_SERVING: Final = "This ZooKeeper instance is not currently serving requests"
TRACE_MASK_DEFAULT: Final = 306  # requests, packets between servers, sessions and warnings


@attrs.frozen
class Question:
    """A word that may be answered: who asks, what follows the word, and what the server is meanwhile."""

    connection: ClientConnection
    argument: bytes
    standing: Standing


@attrs.define(eq=False, kw_only=True)
class FourLetterWords:
    """Answers words; `answer` is what Pipeline.answer_word is set to."""

    config: ServerConfig
    dirs: DataDirs
    metrics: MetricsReader
    digests: DigestHistory
    standing: Callable[[], Standing] = Standing
    time_zone: tzinfo | None = None  # None: the machine's
    trace_mask: int = TRACE_MASK_DEFAULT
    _has_listed_words: bool = attrs.field(default=False, init=False)

    def answer(self, connection: ClientConnection, asked: str) -> bytes | Iterator[str]:
        """The answer to a word, or its pieces; `stmk` comes with the eight bytes that follow it, in
        hexadecimal. Without them there is none yet, unless the word is refused."""
        answer = self._answer(connection, asked)
        if not isinstance(answer, str):
            return answer
        text = answer.encode()
        self._pipeline.stats.word_bytes += len(text)
        return text

    def _answer(self, connection: ClientConnection, asked: str) -> str | Iterator[str]:
        word, argument = (asked[:4], asked[4:]) if asked.startswith("stmk") else (asked, "")
        self._list_words_once()
        if word not in self.config.four_letter_words_whitelist or word not in _ANSWERS:
            return f"{word} is not executed because it is not in the whitelist.\n"
        if asked == "stmk":
            return ""
        log.debug(f"Processing {word} command from {address_text(connection)}")
        question = Question(connection, bytes.fromhex(argument), self.standing())
        if not question.standing.is_serving and word in _SILENT_WHILE_NOT_SERVING:
            return NOT_SERVING if word == "hash" else f"{NOT_SERVING}\n"
        pieces = _ANSWERS[word](self, question)
        return pieces if word in _LONG else "".join(pieces)

    def _list_words_once(self) -> None:
        if not self._has_listed_words:
            self._has_listed_words = True
            enabled = sorted(self.config.four_letter_words_whitelist)
            log.info(f"The list of known four letter word commands is : {sorted(FOUR_LETTER_WORDS)}")
            log.info(f"The list of enabled four letter word commands is : {enabled}")

    @property
    def _pipeline(self) -> Pipeline:
        return self.metrics.pipeline

    # -- answered whether we serve or not

    def _ruok(self, question: Question) -> Iterator[str]:
        yield "imok"

    def _isro(self, question: Question) -> Iterator[str]:
        if not question.standing.is_serving:
            yield "null"
        else:
            yield "ro" if question.standing.mode == READ_ONLY else "rw"

    def _gtmk(self, question: Question) -> Iterator[str]:
        yield str(self.trace_mask)

    def _stmk(self, question: Question) -> Iterator[str]:
        self.trace_mask = int.from_bytes(question.argument, "big", signed=True)
        yield str(self.trace_mask)

    def _envi(self, question: Question) -> Iterator[str]:
        yield "Environment:\n"
        for key, value in self.metrics.host.environment().items():
            yield f"{key}={value}\n"

    # -- the server as a whole

    def _srvr(self, question: Question) -> Iterator[str]:
        yield from _version_lines(question.standing)
        yield from self._server_lines(question.standing)

    def _stat(self, question: Question) -> Iterator[str]:
        yield from _version_lines(question.standing)
        yield "Clients:\n"
        for connection in self._connections():
            yield brief_line(connection, question.connection)
        yield "\n"
        yield from self._server_lines(question.standing)

    def _server_lines(self, standing: Standing) -> Iterator[str]:
        pipeline, stats = self._pipeline, self._pipeline.stats
        latency = stats.requests
        yield f"Latency min/avg/max: {latency.least}/{java_double(latency.average)}/{latency.greatest}\n"
        yield f"Received: {stats.packets_received}\n"
        yield f"Sent: {stats.packets_sent}\n"
        yield f"Connections: {self.metrics.connection_count}\n"
        yield f"Outstanding: {pipeline.outstanding}\n"
        yield f"Zxid: 0x{java_hex(pipeline.tree.last_zxid)}\n"
        yield f"Mode: {standing.mode}\n"
        yield f"Node count: {pipeline.tree.node_count}\n"
        if standing.proposals is not None:
            yield f"Proposal sizes last/min/max: {standing.proposals}\n"

    def _mntr(self, question: Question) -> Iterator[str]:
        yield f"zk_version\t{FULL_VERSION}\n"
        yield f"zk_server_state\t{question.standing.mode}\n"
        for name, text in question.standing.monitor_values.items():
            yield f"zk_{name}\t{text}\n"
        for name, value in spelled(self.metrics.read(question.standing)):
            yield f"zk_{name}\t{java_double(value) if isinstance(value, float) else value}\n"

    def _conf(self, question: Question) -> Iterator[str]:
        config, directory_bytes = self.config, self.metrics.host.directory_bytes
        yield f"clientPort={_or_minus_one(config.client_port)}\n"
        yield f"secureClientPort={_or_minus_one(config.secure_client_port)}\n"
        yield f"dataDir={self.dirs.snap_dir.absolute()}\n"
        yield f"dataDirSize={directory_bytes(self.dirs.snap_dir)}\n"
        yield f"dataLogDir={self.dirs.log_dir.absolute()}\n"
        yield f"dataLogSize={directory_bytes(self.dirs.log_dir)}\n"
        yield f"tickTime={config.tick_ms}\n"
        yield f"maxClientCnxns={config.max_client_cnxns}\n"
        yield f"minSessionTimeout={config.session_ms_min}\n"
        yield f"maxSessionTimeout={config.session_ms_max}\n"
        yield f"clientPortListenBacklog={config.client_port_listen_backlog}\n"
        yield f"serverId={config.my_id if config.is_distributed else 0}\n"
        yield question.standing.ensemble_conf

    def _dirs(self, question: Question) -> Iterator[str]:
        yield f"datadir_size: {self.metrics.host.directory_bytes(self.dirs.snap_dir)}\n"
        yield f"logdir_size: {self.metrics.host.directory_bytes(self.dirs.log_dir)}\n"

    def _hash(self, question: Question) -> Iterator[str]:
        for zxid, digest in self.digests:
            yield f"{java_hex(zxid)}: {signed64(digest)}\n"

    def _srst(self, question: Question) -> Iterator[str]:
        self._pipeline.stats.reset()
        if question.standing.proposals is not None:
            question.standing.proposals.reset()
        yield "Server stats reset.\n"

    # -- connections and sessions

    def _connections(self) -> Iterator[ClientConnection]:
        """Those of this moment that are still there when their turn comes."""
        for connection in list(self.metrics.connections()):
            if connection.state != CLOSED:
                yield connection

    def _cons(self, question: Question) -> Iterator[str]:
        for connection in self._connections():
            yield full_line(connection, question.connection)
        yield "\n"

    def _crst(self, question: Question) -> Iterator[str]:
        for connection in self._connections():
            reset_counts(connection)
            yield ""
        yield "Connection stats reset.\n"

    def _dump(self, question: Question) -> Iterator[str]:
        yield "SessionTracker dump:\n"
        yield from self._sessions(question.standing.mode)
        yield "ephemeral nodes dump:\n"
        yield from self._ephemerals()
        yield "Connections dump:\n"
        ends = ((self._idle_end_ms(each), each) for each in self._connections())
        yield from self._expiry_sets("Connections", ends, expiry_text)

    def _sessions(self, mode: str) -> Iterator[str]:
        pipeline = self._pipeline
        if pipeline.state.local_sessions and mode != STANDALONE:
            yield "Local "
            yield from self._expiry_sets("Session", pipeline.local.by_expiry(), _session_text)
        if mode in (FOLLOWER, OBSERVER, READ_ONLY):
            yield from self._known_sessions()
            return
        if pipeline.state.local_sessions and mode != STANDALONE:
            yield "Global "
        yield from self._expiry_sets("Session", pipeline.sessions.by_expiry(), _session_text)

    def _known_sessions(self) -> Iterator[str]:
        """A learner does not decide when a session ends; it only knows which there are."""
        timeouts_ms = self._pipeline.tree.session_timeouts_ms
        yield f"Global Sessions({len(timeouts_ms)}):\n"
        for session_id in sorted(timeouts_ms):
            yield f"0x{java_hex(session_id)}\t{timeouts_ms.get(session_id, 0)}ms\n"

    def _expiry_sets(
        self, what: str, members: Iterable[tuple[int, _Member]], text: Callable[[_Member], str]
    ) -> Iterator[str]:
        """Members by the time at which each is due, in ms."""
        by_due_ms: dict[int, list[_Member]] = {}
        count = 0
        for due_ms, member in members:
            by_due_ms.setdefault(due_ms, []).append(member)
            count += 1
            yield ""
        yield f"{what} Sets ({len(by_due_ms)})/({count}):\n"
        wall_offset_ms = self._pipeline.wall_ms - self._pipeline.now_ms
        for due_ms, due in sorted(by_due_ms.items(), key=itemgetter(0)):
            yield f"{len(due)} expire at {java_date(due_ms + wall_offset_ms, self.time_zone)}:\n"
            for member in due:
                yield f"\t{text(member)}\n"

    def _idle_end_ms(self, connection: ClientConnection) -> int:
        """When this connection will be closed unless its client is heard (PlainFront.close_idle)."""
        step_ms = max(1, self.config.sessionless_cnxn_timeout_ms)
        allowed_ms = step_ms if connection.state == FRESH else max(connection.timeout_ms, step_ms)
        return ((connection.heard_ms + allowed_ms) // step_ms + 1) * step_ms

    def _ephemerals(self) -> Iterator[str]:
        ephemerals = self._pipeline.tree.ephemerals
        yield f"Sessions with Ephemerals ({len(ephemerals)}):\n"
        for session_id in list(ephemerals):
            if session_id in ephemerals:
                yield f"0x{java_hex(session_id)}:\n"
                for path in list(ephemerals[session_id]):
                    yield f"\t{decode_ustring(path)}\n"

    # -- watches

    def _wchs(self, question: Question) -> Iterator[str]:
        watchers = count = 0
        for connection in self._connections():
            watched = connection.watched.count_of_data()
            watchers += watched > 0
            count += watched
            yield ""
        yield f"{watchers} connections watching {self._pipeline.watches.count_paths()} paths\n"
        yield f"Total watches:{count}\n"

    def _wchp(self, question: Question) -> Iterator[str]:
        watches = self._pipeline.watches
        for path in watches.paths():
            watchers = watches.watchers_of(path)
            if watchers:
                yield f"{decode_ustring(path)}\n"
                for session_id in map(_session_of, watchers):
                    yield f"\t0x{java_hex(session_id)}\n"
        yield "\n"

    def _wchc(self, question: Question) -> Iterator[str]:
        for connection in self._connections():
            yield ""
            for count, path in enumerate(connection.watched.of_data()):
                if not count:
                    yield f"0x{java_hex(connection.session_id)}\n"
                yield f"\t{decode_ustring(path)}\n"
        yield "\n"


_ANSWERS: Final[Mapping[str, Callable[[FourLetterWords, Question], Iterator[str]]]] = {
    "conf": FourLetterWords._conf,
    "cons": FourLetterWords._cons,
    "crst": FourLetterWords._crst,
    "dirs": FourLetterWords._dirs,
    "dump": FourLetterWords._dump,
    "envi": FourLetterWords._envi,
    "gtmk": FourLetterWords._gtmk,
    "hash": FourLetterWords._hash,
    "isro": FourLetterWords._isro,
    "mntr": FourLetterWords._mntr,
    "ruok": FourLetterWords._ruok,
    "srst": FourLetterWords._srst,
    "srvr": FourLetterWords._srvr,
    "stat": FourLetterWords._stat,
    "stmk": FourLetterWords._stmk,
    "wchc": FourLetterWords._wchc,
    "wchp": FourLetterWords._wchp,
    "wchs": FourLetterWords._wchs,
}
_LONG: Final = frozenset({"cons", "crst", "dump", "stat", "wchc", "wchp", "wchs"})  # as long as there is much
_SILENT_WHILE_NOT_SERVING: Final = _ANSWERS.keys() - {"ruok", "isro", "gtmk", "stmk", "envi"}


def _version_lines(standing: Standing) -> Iterator[str]:
    yield f"Zookeeper version: {FULL_VERSION}\n"
    if standing.mode == READ_ONLY:
        yield "READ-ONLY mode; serving only read-only clients\n"


def _session_text(session_id: int) -> str:
    return f"0x{java_hex(session_id)}"


def _or_minus_one(port: int | None) -> int:
    return -1 if port is None else port


def _session_of(watcher: Watcher) -> int:
    return cast(ClientConnection, watcher).session_id  # in a server, nothing but a connection watches
