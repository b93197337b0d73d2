"""ZooKeeper's scripts without Java: what stands behind `zkServer.sh`, `zkCleanup.sh` and the toolkits.

`bin/` holds the shell part, `scripts.py` says which function runs which script. Each gets its arguments and
answers an exit code, and writes what the original writes, to the same streams. A status probe runs every few
seconds, so modules here import nothing that they do not need, and what only some commands need when it is
needed.
"""
