"""Group coordination: who is in a group, which generation it is in, and how far it has read.

Reading order: classic.py (one group and its state machine), members.py, rebalance.py (the join and sync phases and their
timers), joins.py (JoinGroup), membership.py (SyncGroup, Heartbeat, LeaveGroup), offsets.py, records.py (what is written to
`__consumer_offsets`), shard.py (one partition of it: operation -> append -> replay), coordinator.py (which shard; loading).
"""
