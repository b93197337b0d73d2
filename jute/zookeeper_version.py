"""The version of ZooKeeper that these programs stand in for, in the form that clients and tools take apart.

Monitoring checks the number, so the number is ZooKeeper's. The revision is none of Apache's but the SHA-1 of
"triokeeper", by which the two can be told apart. Triokeeper's own version is `server.VERSION`.
"""

from typing import Final

ZOOKEEPER_VERSION: Final = "3.9.5"
REVISION: Final = "5862362d153b25480f2bf30dde854cb5b333769b"
BUILT: Final = "2026-11-17 00:00 UTC"
FULL_VERSION: Final = f"{ZOOKEEPER_VERSION}-{REVISION}, built on {BUILT}"
