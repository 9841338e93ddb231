"""Share groups (KIP-932), seen from the records: which member has acquired which record, for how long, and with what outcome.

- states.py has the table of a record's states, runs of records in one state, and batches of runs.
- share_partition.py is one partition of one group: the records that are in flight, acknowledged, released or timed out.
- acquiring.py decides which records a member acquires.
- persister.py is the interface to the state that outlives this broker.
- log_reads.py reads the log as acquiring needs it: batch by batch, without those of aborted transactions.
- dead_letters.py writes the records that a group gives up to a topic. letter_copies.py reads what letters copy, in steps.
- sessions.py knows which partitions a member fetches. share_partitions.py holds all share partitions and sessions of this broker.

Nothing of this is loaded before the first ShareFetch or ShareAcknowledge.
"""
