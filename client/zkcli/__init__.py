"""zkCli as Apache ZooKeeper 3.9 has it: the same commands, output, streams and exit codes.

`shell.py` is the place to start: one zkCli, its session and its history. `command_table.py` lists the
commands, which are in `commands/`. What only turns text into values and back stands in modules of its own.
"""
