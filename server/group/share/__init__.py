"""Share groups (KIP-932): members that share partitions instead of dividing them, and records that go to one member each.

member.py and records.py are what a group consists of, state_partitions.py which partitions its state was begun in, group.py the
group itself; assignor.py says who reads what, protocol.py what heartbeats do. What becomes of single records is not here: that is
the business of the partitions' leaders and of the share coordinator (server/share_state/).
"""
