"""Running a server as a process: sockets, signals, exit codes."""

import errno
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random
from struct import Struct
from typing import cast

import trio

from eventlog import log
from persistence.disk import RealDisk
from persistence.errors import StorageError
from persistence.offload import WorkerThread
from quorum.errors import CannotListen as NoPeerPort
from quorum.network import BACKLOG_MAX, RealNetwork, bind_remedy
from quorum.server_lines import ALL_INTERFACES, ClientAddress, bracketed
from server import VERSION
from server.build_kind import build_kind
from server.client_fronts import FrontLimits, PlainFront
from server.clock import SystemClock
from server.config import LoadedConfig, ServerConfig
from server.four_letter_words import FourLetterWords
from server.garbage import collect_garbage
from server.host_facts import RealHost
from server.loading_progress import loading_progress
from server.metrics import MetricsReader
from server.replica import Replica, ordering_sentence
from server.stack_dump import stacks
from server.standalone import Standalone
from server.standing import Standing
from server.stream_front import StreamFront
from server.world import World

EXIT_OK = 0
EXIT_UNEXPECTED = 1
EXIT_DATA_DIR = 3
EXIT_PEER_PORT = 14

_SEVERE = "Severe unrecoverable error, exiting."
REMEDY = "The disk failed or is full: what was acknowledged is safe; mend it or make room, then start again"
REMEDY_FILES = (
    "No more files can be opened: what was acknowledged is safe; raise the limit (ulimit -n), start again"
)
_TCP_INFO_BYTES, _TCP_INFO_BACKLOG_AT = 104, 28  # tcpi_sacked, which is the backlog where a socket listens
_TCP_INFO_BACKLOG = Struct("=I")
_SIGNALS_TO_STOP = (signal.SIGTERM, signal.SIGINT)
_SIGNALS_TO_SURVIVE = (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class CannotListen(Exception):
    """The client port is taken, or is not ours to take."""


Companion = Callable[[Replica, int], Awaitable[None]]  # runs beside a server, and knows its client port


def serve_until_signalled(
    loaded: LoadedConfig, *, beside: Companion | None = None, shares_ports: bool = False
) -> int:
    """Run a server until SIGTERM or SIGINT; returns the exit code of the process."""
    for number in _SIGNALS_TO_SURVIVE:  # until there is somebody to hear them
        signal.signal(number, signal.SIG_IGN)
    code = EXIT_OK
    try:
        trio.run(_serve, loaded, beside, shares_ports, strict_exception_groups=True)
    except* StorageError as failures:
        code = _stopped(EXIT_DATA_DIR, "Unable to access datadir, exiting abnormally", failures)
    except* CannotListen as failures:
        code = _stopped(EXIT_UNEXPECTED, "Unexpected exception, exiting abnormally", failures)
    except* NoPeerPort as failures:
        code = _stopped(EXIT_PEER_PORT, "Unable to be one of an ensemble, exiting abnormally", failures)
    except* OSError as failures:
        is_short_of_files = any(map(_is_short_of_files, _leaves(failures)))
        code = _stopped(
            EXIT_UNEXPECTED, f"{_SEVERE} {REMEDY_FILES if is_short_of_files else REMEDY}", failures
        )
    return code


def _stopped(code: int, summary: str, failures: BaseExceptionGroup[BaseException]) -> int:
    for failure in _leaves(failures):
        log.error(summary, reason=str(failure) or type(failure).__name__)
        print(f"{summary}: {failure}", file=sys.stderr)
    log.error(f"Exiting JVM with code {code}")  # in these words, for those who look for them
    return code


def _is_short_of_files(failure: BaseException) -> bool:
    return isinstance(failure, OSError) and failure.errno in (errno.EMFILE, errno.ENFILE)


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for each in group.exceptions:
        found += _leaves(each) if isinstance(each, BaseExceptionGroup) else [each]
    return found


async def _serve(loaded: LoadedConfig, beside: Companion | None, shares_ports: bool) -> None:
    config = loaded.config
    _raise_open_files_limit()
    listener = _listen(config, is_named_by_file=loaded.path is not None)
    log.info(f"Starting quorum peer, myid={config.my_id}" if config.is_distributed else "Starting server")
    async with WorkerThread("log") as log_offload, WorkerThread("snapshot") as snapshot_offload:
        world = World(
            disk=RealDisk(),
            log_offload=log_offload,
            log_begin=log_offload.begin,
            snapshot_offload=snapshot_offload,
            random=Random(),
            clock=SystemClock(),
        )
        if config.is_distributed:
            from server.ensemble_member import EnsembleMember  # a standalone server starts without

            member = EnsembleMember.open(
                config,
                world,
                RealNetwork(config.tcp_keepalive, shares_ports),
                config_path=loaded.path,
                progress=loading_progress(),
            )
            member.on_client_address = partial(_move_clients, member.replica)
            await _run(member.replica, listener, member.standing, beside, member.run)
        else:
            server = Standalone.start(config, world, loading_progress())
            await _run(server, listener, Standing, beside)


async def _run(
    server: Replica,
    listener: socket.socket | None,
    standing: Callable[[], Standing],
    beside: Companion | None,
    take_part: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """The server's tasks; the nesting is the shutdown order."""
    trio.lowlevel.add_instrument(cast(trio.abc.Instrument, server.state.meter))
    server.pipeline.answer_word = four_letter_words_of(server, standing).answer
    async with trio.open_nursery() as storage:
        storage.start_soon(server.write_log)
        try:
            await _serve_clients(server, listener, beside, take_part)
        finally:
            server.writer.finish()


def four_letter_words_of(server: Replica, standing: Callable[[], Standing]) -> FourLetterWords:
    metrics = MetricsReader(
        current_pipeline=lambda: server.pipeline,
        connections=server.connections,
        host=RealHost(),
        started_ms=server.world.clock.now_ms(),
    )
    return FourLetterWords(
        config=server.config,
        dirs=server.dirs,
        metrics=metrics,
        digests=server.pipeline.digest_history,
        standing=standing,
    )


async def _serve_clients(
    server: Replica,
    listener: socket.socket | None,
    beside: Companion | None,
    take_part: Callable[[], Awaitable[None]] | None,
) -> None:
    """Everything that ends when the process is told to stop."""
    async with trio.open_nursery() as serving:
        if take_part is not None:
            serving.start_soon(take_part)
        if listener is not None:
            front = _front(server)
            server.fronts.append(front)
            serving.start_soon(front.run, listener)
        serving.start_soon(collect_garbage)
        serving.start_soon(server.work_off)
        serving.start_soon(server.tick)
        serving.start_soon(server.take_snapshots)
        serving.start_soon(server.reap_containers)
        serving.start_soon(server.purge_old_files)
        with trio.open_signal_receiver(*_SIGNALS_TO_STOP, *_SIGNALS_TO_SURVIVE) as signals:
            _announce(server, listener)  # whoever hears of it may stop it at once
            if beside is not None and listener is not None:
                serving.start_soon(beside, server, listener.getsockname()[1])
            async with _reporting(server):
                await _wait_for(signals)
        serving.cancel_scope.cancel()
    server.fronts.clear()


@asynccontextmanager
async def _reporting(server: Replica) -> AsyncIterator[None]:
    """Keep systemd informed in this block, if it has started this server and wants to know."""
    if "NOTIFY_SOCKET" not in os.environ:
        yield
        return
    from server.systemd.notifying import ServiceManager

    manager = ServiceManager.of(os.environ, os.getpid())
    async with trio.open_nursery() as reporting:
        if manager is not None:
            reporting.start_soon(manager.report, lambda: server.pipeline)
        yield
        reporting.cancel_scope.cancel()
    if manager is not None:
        await manager.tell("STOPPING=1")


def _front(server: Replica) -> PlainFront | StreamFront:
    """The fast front where the system has epoll, the general one elsewhere."""
    config = server.config
    limits = FrontLimits(
        per_address_max=config.max_client_cnxns,
        total_max=config.max_cnxns,
        idle_ms=config.sessionless_cnxn_timeout_ms,
        keepalive=config.client_tcp_keepalive,
        has_peers=config.is_distributed,
    )
    kind = PlainFront if hasattr(select, "epoll") else StreamFront
    return kind(server.pipeline, limits, server.world.clock)


async def _wait_for(signals: AsyncIterator[int]) -> None:
    """Until SIGTERM or SIGINT. Others that would end a process are answered in the log: SIGQUIT with what all
    tasks and threads are doing."""
    async for number in signals:
        name = signal.Signals(number).name
        if number in _SIGNALS_TO_STOP:
            log.info("stopping", signal=name)
            return
        if number == signal.SIGQUIT:
            for text in stacks():
                log.warning(f"SIGQUIT: {text}")
        else:
            log.warning("signal_without_effect", signal=name, remedy="send SIGTERM to stop this server")


def _announce(server: Replica, listener: socket.socket | None) -> None:
    """Say that clients are served, in the sentences that people's tests wait for; a leader has more later."""
    config = server.config
    where = "no client port" if listener is None else _address_text(listener)
    log.info(
        f"Created server with tickTime {config.tick_ms} ms minSessionTimeout {config.session_ms_min} ms "
        f"maxSessionTimeout {config.session_ms_max} ms "
        f"clientPortListenBacklog {config.client_port_listen_backlog} "
        f"dataLogdir {server.dirs.log_dir} snapdir {server.dirs.snap_dir}"
    )
    if listener is not None:
        log.info(f"binding to port {_java_address(config.client_port_address, listener)}")
        log.info("listening", backlog=_backlog_in_force(listener) or _backlog(config))
    if not config.is_distributed:
        log.info(ordering_sentence(0, config))
    log.info(
        f"Triokeeper {VERSION} ({build_kind()}) serving on {where}, mode {_mode(config)}, "
        f"data in {config.data_dir}, zxid 0x{server.pipeline.tree.last_zxid:x}"
    )


def _java_address(host: str | None, listener: socket.socket) -> str:
    """An address as Java shows it: name/number:port, the name missing where a number was given."""
    number, port = listener.getsockname()[:2]
    if host is None:
        return f"{ALL_INTERFACES}/{ALL_INTERFACES}:{port}"
    return f"{'' if host == number else host}/{bracketed(number)}:{port}"


def _mode(config: ServerConfig) -> str:
    if not config.is_distributed:
        return "standalone"
    return f"server {config.my_id} of {len(config.ensemble.members)} (looking for a leader)"


def _address_text(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listen(config: ServerConfig, *, is_named_by_file: bool) -> socket.socket | None:
    if config.client_port is None:
        log.info("clientPort is not set")
        return None
    host, port = config.client_port_address, config.client_port
    try:
        return _bound(host, port, _backlog(config))
    except OSError as failure:
        names = ("clientPort", "clientPortAddress") if is_named_by_file else ("--port", "--address")
        raise CannotListen(
            f"cannot listen on {bracketed(host or '*')}:{port} ({names[0]}): {failure.strerror or failure}. "
            f"{bind_remedy(failure, port=names[0], address=names[1])}."
        ) from failure


def _bound(host: str | None, port: int, backlog: int) -> socket.socket:
    """A listener on one address, or on all of them, IPv6 included where there is any."""
    if host is None and socket.has_dualstack_ipv6():
        with suppress(OSError):  # no IPv6 in this network namespace
            return _nonblocking(
                socket.create_server(("", port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True)
            )
    family = socket.AF_INET
    if host is not None:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    return _nonblocking(socket.create_server((host or "", port), family=family, backlog=backlog))


def _move_clients(server: Replica, address: ClientAddress) -> None:
    """A reconfiguration has moved the client port. Whoever is connected stays."""
    log.info("client_port_moves", address=str(address))
    fronts = [front for front in server.fronts if isinstance(front, PlainFront)]
    if not fronts:
        log.error("client_port_not_moved", address=str(address), remedy="restart this server")
    for front in fronts:
        _move(front, server.config, address.host, address.port)


def _move(front: PlainFront, config: ServerConfig, host: str, port: int) -> None:
    """Where both addresses have the port in common, the old one must go before the new one can come."""
    before = front.stop_listening()
    try:
        front.listen(_bound(host, port, _backlog(config)))
    except OSError as failure:
        log.error("client_port_not_moved", reason=str(failure), remedy="free the port, then restart")
        front.listen(_bound(str(before[0]), int(str(before[1])), _backlog(config)))


def _backlog(config: ServerConfig) -> int:
    """How many clients may wait to be accepted; unless it is set, as many as the system allows.

    Apache's 50 drop most of a crowd: TCP tries again after 1, 3, 7 and 15 s.
    """
    return config.client_port_listen_backlog if config.client_port_listen_backlog > 0 else BACKLOG_MAX


def _backlog_in_force(listener: socket.socket) -> int | None:
    """What the system made of the backlog, which is never more than net.core.somaxconn; None if unknown."""
    if sys.platform != "linux":
        return None
    info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    backlog: int = _TCP_INFO_BACKLOG.unpack_from(info, _TCP_INFO_BACKLOG_AT)[0]
    return backlog


def _nonblocking(listener: socket.socket) -> socket.socket:
    listener.setblocking(False)
    return listener


def _raise_open_files_limit() -> None:
    """Every client is a file: take as many as the system lets us have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
