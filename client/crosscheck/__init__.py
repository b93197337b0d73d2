"""`triokeeper crosscheck`: a client's traffic repeated at another server, and every difference told.

A client speaks with the first server through `proxy.py`, which hands on every byte before it looks at it.
What was asked and answered (`exchanges.py`) is put into the order of the first server's transactions
(`ordering.py`) and repeated at the second server, one request after the other (`mirror.py`), so that the two
trees are always at the same point of the same history when their answers are compared (`likeness.py`).

The second server can be slow, wrong or gone: the client is served by the first one alone.
"""
