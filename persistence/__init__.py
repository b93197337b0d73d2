"""What a server keeps on disk: transaction log, snapshots, epochs, and how they are read back.

Every file is one that Apache ZooKeeper 3.9 can read and could have written. The formats are pure
(log_format, snapshot_format, torn_tail, file_names); the rest touches files through `disk.Disk` alone.
"""
