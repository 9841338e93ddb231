"""Consumer groups (KIP-848): the broker assigns partitions, members send heartbeats, and each is led to its assignment
by itself.
"""
