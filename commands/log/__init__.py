"""`ottla log`: dump, verify and repair what lies in a data directory, ottla's or Apache Kafka's, without a broker.

All of them see the batches of a segment as `segment_walk.py` finds them, whatever the bytes. `dump/` decodes them, `checks/`
compares with them what is derived from them, and `repairs/` has the steps that put right what the checks find.
"""
