"""The super user of servers that tests start: what it says to `auth`, and what the server's flag holds."""

from typing import Final

SUPER: Final = b"super:secret"
SUPER_DIGEST: Final = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="  # of SUPER
