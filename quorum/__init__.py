"""Many servers as one: leader election and Zab, in the protocols of Apache ZooKeeper 3.9."""
