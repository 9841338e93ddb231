"""The everyday commands: topics, records, groups and settings of any Kafka cluster, and a look into segment files.

One file a command, with what it shows in a `..._rows` beside it. `client` is the way to a cluster, `direct` the one where
librdkafka has none; `output` is the way to the user, `admin` what topic, group and config share. server/program/app.py puts the
commands together.
Nothing here is imported to start a broker, and confluent-kafka only by a command that has something to ask of a cluster.
"""
