"""The wire and disk language of ZooKeeper: records, codecs, framing and numbers with names.

Pure bytes in, values out, and back: nothing here does I/O, and nothing here knows of the packages above it.
"""
