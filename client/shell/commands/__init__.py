"""The commands of the shell, by what they are about; client/shell/command_table.py lists them."""
