"""The share coordinator (KIP-932) keeps in `__share_group_state` what share groups have done with the records of partitions.

batches.py merges batches of offsets, state.py is the state of one share partition, records.py has its two kinds of records,
shard.py is one partition of the topic, coordinator.py routes to the shards, and opening.py opens the coordinator of a broker.
"""
