"""The share coordinator (KIP-932): what share groups have done with the records of partitions, kept in `__share_group_state`.

batches.py joins states of offsets, state.py is what is kept of one share partition, records.py its two records, shard.py one
partition of the topic, coordinator.py routes to them, opening.py makes the coordinator of a broker.
"""
