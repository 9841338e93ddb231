"""What the group protocols in which the broker assigns have in common: consumer (KIP-848), share (KIP-932), streams (KIP-1071).

Members send heartbeats and nothing else. The coordinator counts the group's changes in an epoch, works out for each who is to
have what (the target), and leads every member there at its own pace. assignor.py is the contract of the algorithms, java_order.py
the orders in which Kafka's see members and topics, topics.py what they,
and the hash that stands for a group's topics, see of them, epochs.py the numbers with a meaning of their own.
"""
