"""Every record there is, for tests that must hold of each."""

import attrs

from jute import client_records, quorum_records, txn_records
from jute.quorum_records import Initiation, Notification

_RAW = {Initiation, Notification}  # attrs classes of the election port, which speaks no Jute

RECORDS: list[type[object]] = [
    cls
    for module in (client_records, txn_records, quorum_records)
    for cls in vars(module).values()
    if isinstance(cls, type) and attrs.has(cls) and cls.__module__ == module.__name__ and cls not in _RAW
]
