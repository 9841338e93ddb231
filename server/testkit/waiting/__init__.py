"""Waits: a test asks for something that is to come about (`until`), and is answered when it has, or told what is missing.

A condition (conditions.py, group_conditions.py) looks at the broker. It is looked at again after whatever may have changed it,
which the pending waits subscribe to (pending.py): changes of the metadata, appends to partitions, requests, timers of the
broker's clock, connections, lives. Nothing is polled, and without a pending wait nothing is looked at.
"""
