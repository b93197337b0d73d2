"""`triokeeper status`: a whole ensemble at a glance, and probes for scripts.

    answers, members, report, table   pure: what servers say, who the members are, the verdict, the table
    probe, ready                      ask servers: all at once on Trio, or one of them in a hurry
    default_address, show, command    which server is meant, the screen, and the command line

It asks Apache's servers and ours alike, with what each allows.
"""
