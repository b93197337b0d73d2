"""One Triokeeper server: the znode tree, sessions, client connections, configuration and command line."""

VERSION = "0.1.0"
