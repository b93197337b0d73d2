"""zkCli's commands, those that belong together in one file. `command_table.py` lists them all."""
