"""Share groups (KIP-932), the side of the records: who holds which, for how long, and what became of them.

- states.py: the states of a record, as a table; runs of records in one state; batches of runs.
- share_partition.py: one partition of one group: what is in flight, acknowledged, released, timed out. acquiring.py: handing out.
- persister.py: what of that outlives this broker.
- log_reads.py: the log as handing out needs it: batch by batch, without those of aborted transactions.
- dead_letters.py: what is given up is told of in a topic.
- sessions.py: which partitions a member fetches. share_partitions.py: all share partitions and sessions of this broker.

Nothing of this is loaded before the first ShareFetch or ShareAcknowledge.
"""
