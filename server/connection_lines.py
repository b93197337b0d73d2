"""What the words stat, cons and dump say about one client connection."""

from jute.java_text import java_hex
from server.client_protocol import OP_NAMES, ClientConnection

_READING, _WRITING = 1, 4  # what a socket waits for, as Java's selector numbers it


def address_text(connection: ClientConnection) -> str:
    """As Java writes an address that was not looked up: `/127.0.0.1:41676`, `/[0:0:0:0:0:0:0:1]:41676`."""
    host = f"[{connection.address}]" if ":" in connection.address else connection.address
    return f"/{host}:{connection.port}"


def brief_line(connection: ClientConnection, asking: ClientConnection) -> str:
    return f" {_counts(connection, asking)})\n"


def full_line(connection: ClientConnection, asking: ClientConnection) -> str:
    return f" {_counts(connection, asking)}{_session_fields(connection)})\n"


def expiry_text(connection: ClientConnection) -> str:
    return f"ip: {address_text(connection)} sessionId: 0x{java_hex(connection.session_id)}"


def reset_counts(connection: ClientConnection) -> None:
    """Forget what a connection did so far; what it is, and whose, stays."""
    connection.received_count = connection.sent_count = 0
    connection.last_op = 0
    connection.last_xid = connection.last_zxid = -1
    connection.last_reply_ms = connection.last_latency_ms = 0
    connection.latency_count = connection.latency_total_ms = connection.latency_max_ms = 0
    connection.latency_min_ms = None


def _counts(connection: ClientConnection, asking: ClientConnection) -> str:
    """The connection that asks is no longer waited on: it only gets its answer."""
    waits_for = 0
    if connection is not asking:
        waits_for = (0 if connection.is_paused else _READING) + (_WRITING if connection.out_bytes else 0)
    return (
        f"{address_text(connection)}[{waits_for:x}](queued={len(connection.fifo)}"
        f",recved={connection.received_count},sent={connection.sent_count}"
    )


def _session_fields(connection: ClientConnection) -> str:
    if not connection.session_id:
        return ""
    last_xid = f",lcxid=0x{java_hex(connection.last_xid)}" if connection.last_xid >= 0 else ""
    average_ms = connection.latency_total_ms // max(1, connection.latency_count)
    return (
        f",sid=0x{java_hex(connection.session_id)},lop={OP_NAMES.get(connection.last_op, 'NA')}"
        f",est={connection.established_ms},to={connection.timeout_ms}{last_xid}"
        f",lzxid=0x{java_hex(connection.last_zxid)},lresp={connection.last_reply_ms}"
        f",llat={connection.last_latency_ms},minlat={connection.latency_min_ms or 0}"
        f",avglat={average_ms},maxlat={connection.latency_max_ms}"
    )
