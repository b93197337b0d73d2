"""`triokeeper status`: a whole ensemble at a glance, and probes for scripts.

answers, members, report, table   pure: what servers say, who the members are, the verdict, how it is shown
probe, ready                      ask servers: all at once on Trio, or one of them in a hurry
command                           the command line
"""
