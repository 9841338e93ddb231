"""HTTP on the broker's loop, for what is not Kafka's protocol: the pages beside the metrics, and the calls of the test kit.

Nothing of it, h11 included, is loaded by a broker that has neither.
"""
