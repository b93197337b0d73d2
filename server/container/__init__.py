"""A server in a container: the environment variables of three images, turned into files and one command.

    triokeeper entrypoint CMD ARGS...

    variables.py        the environment, with secrets read from their files
    commands.py         what the container is asked to run
    config_lines.py     lines of zoo.cfg, and the variables that name any key of it
    official.py, bitnami.py, confluent.py
                        what each image makes of its variables: a draft
    refused_security.py variables about TLS and SASL, which this version does not serve
    server_ids.py       which of the servers this one is
    facts.py            what a plan must know of the machine
    plan.py             a draft and facts about the disk give a plan: what to write, to say and to run
    entrypoint.py       the shell around all this: owners, user, files, exec
    command.py          the command line
    process_one.py      what a server does differently as PID 1

All but the last three are pure.
"""
