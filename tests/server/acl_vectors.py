"""An ACL on its own, as it stands inside requests, transactions and snapshots: as a record."""

from jute.client_records import Acl
from jute.primitives import Vector
from jute.record import record


@record
class AclVector:
    acl: Vector[Acl]
