"""The everyday commands: topics, records, groups and settings of any Kafka cluster, and a look into segment files.

One file a command. `client` is the way to a cluster, `output` the way to the user; server/cli_app.py puts the commands together.
Nothing here is imported to start a broker, and confluent-kafka only by a command that has something to ask of a cluster.
"""
