"""The everyday commands: topics, records, groups and settings of any Kafka cluster, and tools that look into segment files.

Each command has a file of its own, and often a second one, `..._rows`, with what it shows. `client` connects to a cluster through
librdkafka, and `direct` sends the requests that librdkafka does not have. `output` writes to the user, and `admin` holds what the
topic, group and config commands share; `testkit_port` talks to a broker's test port. server/program/app.py puts the commands
together.
The broker imports nothing from here when it starts, and only a command that talks to a cluster imports confluent-kafka.
"""
