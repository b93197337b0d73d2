"""The requests of the client protocol, by number."""

from enum import IntEnum
from typing import Final

PING_XID: Final = -2


class Op(IntEnum):
    """The requests of the protocol."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CREATE_SESSION = -10
    CLOSE_SESSION = -11


READS: Final = frozenset(
    {
        Op.EXISTS,
        Op.GET_DATA,
        Op.GET_ACL,
        Op.GET_CHILDREN,
        Op.GET_CHILDREN2,
        Op.SYNC,
        Op.PING,
        Op.CHECK_WATCHES,
        Op.REMOVE_WATCHES,
        Op.MULTI_READ,
        Op.SET_WATCHES,
        Op.SET_WATCHES2,
        Op.ADD_WATCH,
        Op.GET_EPHEMERALS,
        Op.GET_ALL_CHILDREN_NUMBER,
        Op.WHO_AM_I,
        Op.AUTH,
    }
)
