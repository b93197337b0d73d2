"""The ACLs that nearly everybody uses."""

from jute.client_records import Acl, Id
from jute.opcodes import Perms

ANYONE = Id("world", "anyone")
OPEN_ACL_UNSAFE = (Acl(Perms.ALL, ANYONE),)
READ_ACL_UNSAFE = (Acl(Perms.READ, ANYONE),)
CREATOR_ALL_ACL = (Acl(Perms.ALL, Id("auth", "")),)
