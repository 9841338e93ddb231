"""The commands' ways to reach a cluster: `client.py` through librdkafka, and `direct.py` for requests that librdkafka does not
have.

`brokers.py` keeps such connections of our own to all brokers, and `login.py` logs them in. `properties.py` and `oauth.py` read
the client.properties of Apache Kafka's tools.
"""
