"""Group coordination: who is in a group, which generation or epoch it is in, and how far it has read.

Reading order: seam.py (what every kind of group has in common), requests.py, records.py (what is written to
`__consumer_offsets`), result.py (what an operation returns), shard.py (one partition of it: operation -> append -> replay),
offsets.py (committed offsets), coordinator.py (which shard a group belongs to, and loading); then a kind of group:

- classic/: group.py and members.py (its state), rebalance.py (the join and sync phases and their timers), joins.py
(JoinGroup), membership.py (SyncGroup, Heartbeat, LeaveGroup), protocol.py (all of it on one shard); - modern/ (what the kinds
share in which the broker assigns), then consumer/, share/ or streams/: their protocol.py begins with an order.

No kind of group imports another, except that consumer/ turns classic groups into its own and back. pyproject.toml has the
order of the modules as a contract.
"""
