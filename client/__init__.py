"""A small ZooKeeper client on Trio, and what stands on it: the shell, `status`.

It knows `jute` and nothing of the server, so it works as well with Apache's servers.
"""
