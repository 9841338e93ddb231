"""Group coordination keeps the members of each group, its generation or epoch, and its committed offsets.

Read group.py and protocol.py first (what every kind of group has in common, and what each does in its own way), then
requests.py, records.py (what is written to `__consumer_offsets`), result.py (what an operation returns), shard.py (one partition:
operation -> append -> replay), offsets.py (committed offsets) and coordinator.py (which shard a group belongs to, and loading).
Then choose a kind of group:

- classic/: group.py and members.py (its state), rebalance.py (the join and sync phases and their timers), joins.py (JoinGroup),
  membership.py (SyncGroup, Heartbeat, LeaveGroup), protocol.py (all of it on one shard).
- modern/ (what those kinds share in which the broker assigns), then consumer/, share/ or streams/. Each of their protocol.py
  begins with a reading order.

No kind of group imports another, except that consumer/ converts classic groups into its own and back. A contract in
pyproject.toml has the order of the modules.
"""
