"""This package has what the protocols in which the broker assigns have in common: consumer (KIP-848), share (KIP-932) and streams
(KIP-1071).

Members only send heartbeats. The coordinator counts the group's changes in an epoch, computes for each epoch which member is to
have what (the target assignment), and leads every member there at its own pace.

assignor.py is the contract of the algorithms, and java_order.py has the orders in which Kafka's see members and topics.
topics.py is what groups see of the cluster's topics, metadata_hash.py the hash that stands for the topics of a group, names.py
counts who subscribes to each. operations.py carries out what is asked of large groups in turns, and target_jobs.py makes their
targets in the background. epochs.py has the numbers with a meaning of their own, group_configs.py the settings of a group, and
timers.py the deadlines of members.
"""
