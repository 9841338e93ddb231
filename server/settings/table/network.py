"""The broker's settings of the network: listeners, sockets, limits of connections and requests, quotas, metrics.

server/settings/table/row.py says what stands in a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.log.config_def import INT_MAX

if TYPE_CHECKING:
    from ottla.server.settings.table.row import Row

# fmt: off
ROWS: Final[tuple[Row, ...]] = (
    ("advertised.listeners",
        "Where clients are told to connect, as NAME://host:port for each of `listeners`; what is not named advertises itself. "
        "Port 0 is the one that was bound.",
        "LIST", None, None, None, "e"),
    ("client.quota.callback.class", "A Java class that decides on quotas. There is no JVM here: without effect.",
        "CLASS", None),
    ("connections.max.idle.ms", "A connection on which nothing moved for so long is closed.",
        "LONG", 600000, None, None, "e"),
    ("controller.quota.window.num",
        "Windows that `controller_mutation_rate` is measured over: what one would give in all of them may be used at once.",
        "INT", 11, 1, None, "e"),
    ("controller.quota.window.size.seconds", "How long each of those windows lasts.",
        "INT", 1, 1, None, "e"),
    ("delete.records.purgatory.purge.interval.requests",
        "How many finished DeleteRecords requests Kafka gathers before it forgets them.",
        "INT", 1),
    ("fetch.max.bytes", "The most that one fetch returns; its first batch is returned whole even beyond.",
        "INT", 57671680, 1024, None, "e"),
    ("fetch.purgatory.purge.interval.requests", "How many finished fetches Kafka gathers before it forgets them.",
        "INT", 1000),
    ("inter.broker.listener.name",
        "Which of `listeners` other brokers use; without it the first of the protocol `security.inter.broker.protocol`.",
        "STRING", None, None, None, "e"),
    ("kafka.metrics.polling.interval.secs", "How often Java reporters of metrics are polled.",
        "INT", 10, 1),
    ("kafka.metrics.reporters", "Java classes that report metrics.",
        "LIST", ()),
    ("listener.security.protocol.map",
        "The security protocol of each listener name, as NAME:PROTOCOL pairs. PLAINTEXT is the one spoken yet.",
        "STRING", "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", None, None, "be"),
    ("listeners",
        "Where to listen, as NAME://host:port. An empty host is every interface, port 0 a free one. Without any, "
        "127.0.0.1:9092.",
        "LIST", ("PLAINTEXT://127.0.0.1:9092",), None, None, "be"),
    ("max.connection.creation.rate",
        "The most new connections per second, of the broker and of each listener without its own; one more has to wait.",
        "INT", INT_MAX, 0, None, "ce"),
    ("max.connections", "The most connections of the broker, over all listeners; one more is closed at once.",
        "INT", INT_MAX, 0, None, "ce"),
    ("max.connections.per.ip", "The most connections from one address.",
        "INT", INT_MAX, 0, None, "ce"),
    ("max.connections.per.ip.overrides", "Other limits for some addresses, as host:count pairs.",
        "STRING", "", None, None, "ce"),
    ("max.incremental.fetch.session.cache.slots", "The most fetch sessions kept.",
        "INT", 1000, 0, None, "e"),
    ("max.request.partition.size.limit", "The most partitions in one answer to DescribeTopicPartitions.",
        "INT", 2000, 1, None, "e"),
    ("metric.reporters", "Java classes that report metrics. There is no JVM here: without effect.",
        "LIST", ("org.apache.kafka.common.metrics.JmxReporter",), None, None, "c"),
    ("metrics.num.samples", "Samples that a metric is made of.",
        "INT", 2, 1),
    ("metrics.recording.level", "Which metrics are kept: INFO, DEBUG or TRACE.",
        "STRING", "INFO"),
    ("metrics.sample.window.ms", "How long a sample of a metric lasts.",
        "LONG", 30000, 1),
    ("num.io.threads", "Threads that handle requests in Kafka. ottla has one event loop.",
        "INT", 8, 1, None, "c"),
    ("num.network.threads", "Threads that read and write sockets in Kafka. ottla has one event loop.",
        "INT", 3, 1, None, "c"),
    ("producer.purgatory.purge.interval.requests", "How many finished produce requests Kafka gathers before it forgets them.",
        "INT", 1000),
    ("queued.max.request.bytes", "Bytes of requests that may wait, of all connections, before reading stops; -1 is no limit.",
        "LONG", -1, None, None, "e"),
    ("queued.max.requests", "Requests that may wait, of all connections, for the answer before theirs; then reading stops.",
        "INT", 500, 1, None, "e"),
    ("quota.window.num", "Windows that clients' quotas are measured over, and the rates of new connections.",
        "INT", 11, 1, None, "e"),
    ("quota.window.size.seconds",
        "How long each of those windows lasts; and the longest wait for who took too much time, or for a connection.",
        "INT", 1, 1, None, "e"),
    ("socket.connection.setup.timeout.max.ms", "The longest that this broker waits for a connection it opens.",
        "LONG", 30000),
    ("socket.connection.setup.timeout.ms", "The first wait for a connection that this broker opens; it grows with failures.",
        "LONG", 10000),
    ("socket.listen.backlog.size", "Connections that may wait to be accepted.",
        "INT", 50, 1, None, "e"),
    ("socket.receive.buffer.bytes",
        "SO_RCVBUF of clients' connections. At Kafka's default, and at -1, the kernel chooses by demand, which is faster.",
        "INT", 102400, None, None, "e"),
    ("socket.request.max.bytes", "The longest request; a connection that announces a longer one is closed.",
        "INT", 104857600, 1, None, "e"),
    ("socket.send.buffer.bytes",
        "SO_SNDBUF of clients' connections. At Kafka's default, and at -1, the kernel chooses by demand, which is faster.",
        "INT", 102400, None, None, "e"),
    ("telemetry.max.bytes", "The longest push of client metrics.",
        "INT", 1048576, 1),
)
# fmt: on
