"""Share groups (KIP-932): members share partitions instead of dividing them, and each record goes to one member.

member.py, records.py and group.py are the group and its parts, state_partitions.py tracks in which partitions its state is
initialized, assignor.py decides which member reads what, and protocol.py handles heartbeats. The outcome of single records is not
handled here, but by the partitions' leaders (server/share/) and the share coordinator (server/share_state/).
"""
