"""Records of the client protocol, in the order of zookeeper.jute.

A field's annotation *is* its wire format (primitives.py: `Long = Annotated[int, "q"]`). `@record`,
attrs.frozen underneath, compiles it once into a codec: there is no second table to keep in step.

Any string, buffer or vector may be null on the wire, also where that makes no sense, hence `None` in every
such type: a request with a null path decodes, and is refused later with its proper error.
"""

from jute.primitives import Boolean, Buffer, Int, Long, UString, Vector
from jute.record import record

# --- Data that requests and replies share.


@record
class Id:
    """Who: a scheme of authentication and an identity within it, e.g. world:anyone."""

    scheme: UString
    id: UString


@record
class Acl:
    """One entry of an ACL: what `id` may do."""

    perms: Int  # a sum of Perms; bits beyond ALL are kept
    id: Id


@record
class Stat:
    """A node's bookkeeping as clients see it: 68 bytes, of which some are not stored as shown.

    `cversion` counts creates *and* deletes of children, while the server stores the number of creates:
    it is twice that less `num_children`, in 32-bit arithmetic. `ephemeral_owner` is 0 for containers and TTL
    nodes, although the server stores their kind in it.
    """

    czxid: Long
    mzxid: Long
    ctime: Long  # ms since 1970, as is mtime
    mtime: Long
    version: Int
    cversion: Int
    aversion: Int
    ephemeral_owner: Long
    data_length: Int  # 0 for null data too
    num_children: Int
    pzxid: Long  # the last create or delete of a direct child


@record
class StatPersisted:
    """A node's bookkeeping as snapshots hold it: `cversion` counts creates alone, the owner is as stored."""

    czxid: Long
    mzxid: Long
    ctime: Long
    mtime: Long
    version: Int
    cversion: Int
    aversion: Int
    ephemeral_owner: Long
    pzxid: Long


@record
class ClientInfo:
    """One identity of the asking client, in answer to whoAmI."""

    auth_scheme: UString
    user: UString


# --- The handshake.


@record
class ConnectRequest:
    """The first frame of a connection, without a RequestHeader, and without its optional last byte.

    Behind it may follow one Boolean, readOnly. Old clients leave it out, which shows in that no byte is left;
    they must not be sent one back.
    """

    protocol_version: Int  # whatever it is, it is ignored
    last_zxid_seen: Long
    timeout_ms: Int  # a wish: the server has its bounds
    session_id: Long  # 0 asks for a new session
    passwd: Buffer  # of a new session, anything goes: null too


@record
class ConnectResponse:
    """The answer to ConnectRequest, without a ReplyHeader. A refusal is zeros throughout, 16 in the passwd.

    The Boolean readOnly must follow if and only if the request had its own. It says what this server is,
    not what the client asked for.
    """

    protocol_version: Int  # always 0
    timeout_ms: Int
    session_id: Long
    passwd: Buffer  # always 16 bytes


@record
class SetWatches:
    """A client that reconnected tells which watches it held; a null vector is an error."""

    relative_zxid: Long  # the last zxid the client saw: what happened since fires at once
    data_watches: Vector[UString]
    exist_watches: Vector[UString]
    child_watches: Vector[UString]


@record
class SetWatches2:
    """SetWatches with the watches that addWatch sets."""

    relative_zxid: Long
    data_watches: Vector[UString]
    exist_watches: Vector[UString]
    child_watches: Vector[UString]
    persistent_watches: Vector[UString]
    persistent_recursive_watches: Vector[UString]


# --- Headers.


@record
class RequestHeader:
    """Opens every request but the first; ping and closeSession are this alone."""

    xid: Int  # chosen by the client and echoed, whatever it is
    type: Int  # an OpCode, or not: a number that is none must be answered


@record
class MultiHeader:
    """Stands before each part of a multi and, with `done` set, at the end. Only `done` tells the end."""

    type: Int  # an OpCode, ERROR before an ErrorResponse, -1 at the end
    done: Boolean
    err: Int  # -1 in requests and at the end; in a result 0, or what its ErrorResponse says


@record
class AuthPacket:
    """Credentials, for a scheme such as digest. Its reply may overtake the replies of earlier requests."""

    type: Int  # ignored
    scheme: UString
    auth: Buffer


@record
class ReplyHeader:
    """Opens every reply; a request that failed is answered by this alone.

    `zxid` is the last transaction this server had applied. The client shows it again when it
    reconnects elsewhere, and a server that has not caught up with it must refuse the client.
    """

    xid: Int  # echoes the request, or is reserved: -1 watch event, -2 ping, -4 auth
    zxid: Long
    err: Int  # 0, or the code of a ZkError


# --- Requests and replies. A reply that is not here has no body.


@record
class GetDataRequest:
    """Inside multiRead `watch` is ignored."""

    path: UString
    watch: Boolean


@record
class SetDataRequest:
    """Replace a node's data; null data is stored as null, not as empty."""

    path: UString
    data: Buffer
    version: Int  # that the node must have; -1 for any


@record
class ReconfigRequest:
    """Change the ensemble: by joining and leaving servers, or by naming all members, never both."""

    joining_servers: UString
    leaving_servers: UString
    new_members: UString
    cur_config_id: Long  # the config's version must be this; -1 for any


@record
class SetDataResponse:
    """The Stat after the change."""

    stat: Stat


@record
class GetSaslRequest:
    """One token of the client's side of a SASL exchange."""

    token: Buffer


@record
class SetSaslResponse:
    """The server's answer to GetSaslRequest. A failure is answered with a body too: a null token."""

    token: Buffer


@record
class CreateRequest:
    """Of create, create2 and createContainer alike."""

    path: UString
    data: Buffer
    acl: Vector[Acl]
    flags: Int  # a CreateMode, or not


@record
class CreateTtlRequest:
    """CreateRequest with a time to live."""

    path: UString
    data: Buffer
    acl: Vector[Acl]
    flags: Int
    ttl: Long  # ms


@record
class DeleteRequest:
    """Delete a node that has no children."""

    path: UString
    version: Int  # that the node must have; -1 for any


@record
class DeleteContainerRequest:
    """What the container reaper asks for. The path travels as a buffer, unlike everywhere else."""

    path: Buffer


@record
class GetChildrenRequest:
    """Inside multiRead `watch` is ignored."""

    path: UString
    watch: Boolean


@record
class GetAllChildrenNumberRequest:
    """How many nodes are below this one, at any depth?"""

    path: UString


@record
class GetChildren2Request:
    """GetChildrenRequest, answered with a Stat too."""

    path: UString
    watch: Boolean


@record
class CheckVersionRequest:
    """A condition inside a multi."""

    path: UString
    version: Int  # that the node must have; -1 asks only that it exists


@record
class SyncRequest:
    """Catch up with the leader before going on."""

    path: UString  # echoed and otherwise unused


@record
class SyncResponse:
    """The path of the request, encoded anew: what was malformed in it comes back as U+FFFD."""

    path: UString


@record
class GetAclRequest:
    """Read a node's ACL."""

    path: UString


@record
class SetAclRequest:
    """Replace a node's ACL."""

    path: UString
    acl: Vector[Acl]
    version: Int  # the aversion that the node must have; -1 for any


@record
class SetAclResponse:
    """The Stat after the change, in which aversion alone is new."""

    stat: Stat


@record
class AddWatchRequest:
    """Set a persistent watch; answered with ErrorResponse(0)."""

    path: UString
    mode: Int  # an AddWatchMode, or not


@record
class WatcherEvent:
    """A watch fired. Stands behind a ReplyHeader whose xid is -1."""

    type: Int  # an EventType
    state: Int  # KeeperState.SYNC_CONNECTED, always
    path: UString


@record
class ErrorResponse:
    """The result of each part of a multi that failed (0: undone as others failed); also addWatch's reply."""

    err: Int


@record
class CreateResponse:
    """The path made, with its sequence number if it has one."""

    path: UString


@record
class Create2Response:
    """Of create2, createContainer and createTTL: the path made, and the new node's Stat."""

    path: UString
    stat: Stat


@record
class ExistsRequest:
    """Unlike the other reads, this may watch a node that does not exist."""

    path: UString
    watch: Boolean


@record
class ExistsResponse:
    """The node exists, and this is its Stat; if it does not, the reply is an error."""

    stat: Stat


@record
class GetDataResponse:
    """A node's data, null if it was stored as null, and its Stat."""

    data: Buffer
    stat: Stat


@record
class GetChildrenResponse:
    """The names, not the paths, of a node's children, in no order a client may rely on."""

    children: Vector[UString]


@record
class GetAllChildrenNumberResponse:
    """The number of nodes below the one asked about, itself not counted."""

    total_number: Int


@record
class GetChildren2Response:
    """GetChildrenResponse, and the parent's Stat."""

    children: Vector[UString]
    stat: Stat


@record
class GetAclResponse:
    """A node's ACL, with the digests hidden from those who may not administer it, and its Stat."""

    acl: Vector[Acl]
    stat: Stat


@record
class CheckWatchesRequest:
    """Does this session hold such a watch? The answer is in the header's err."""

    path: UString
    type: Int  # a WatcherType, or not


@record
class RemoveWatchesRequest:
    """Take this session's watches of a kind off a path."""

    path: UString
    type: Int  # a WatcherType, or not


@record
class GetEphemeralsRequest:
    """Which ephemerals of this session lie under a prefix?"""

    prefix_path: UString


@record
class GetEphemeralsResponse:
    """Full paths, in no order."""

    ephemerals: Vector[UString]


@record
class WhoAmIResponse:
    """Every identity the connection has."""

    client_info: Vector[ClientInfo]
