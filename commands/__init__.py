"""The everyday commands: topics, records, groups and settings of any Kafka cluster, and tools that look into segment files.

Each command has a file of its own, and often a second one, `..._rows`, with what it shows. The large ones have rooms: `groups`
and `why`, `log`, `cluster`, `pipeline`, `testkit`. `clients` reaches a cluster, and `output` writes to the user. `admin` holds
what the topic, group and config commands share, `positions` and `record_text` what consuming and producing share.
server/program/app.py puts the commands together.
The broker imports nothing from here when it starts, and only a command that talks to a cluster imports confluent-kafka.
"""
