"""`triokeeper cli`: a shell for people and scripts.

    command, command_table, script   the command line, where each command lives, and commands from lines
    shell, blocking_shell, trio_shell, failures   sessions, exit codes
    output, acl_text         values as text and JSON
    trees, places, walk      copies and comparisons of parts of the tree, whether on a server or in a file
    terminal, completion, progress   what a person sees beyond that
    commands/                one file for each kind of command

What always holds: standard output carries results and nothing else, and the exit code tells what happened.
"""
