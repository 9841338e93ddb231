"""The broker's settings for the network: listeners, sockets, limits of connections and requests, quotas, metrics.

server/settings/table/row.py describes the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.log.config_def import INT_MAX

if TYPE_CHECKING:
    from ottla.server.settings.table.row import Row

# fmt: off
ROWS: Final[tuple[Row, ...]] = (
    ("advertised.listeners",
        "The addresses that clients are given, as NAME://host:port for each of `listeners`; a listener that is not named here "
        "advertises itself. Port 0 stands for the port that was bound.",
        "LIST", None, None, None, "e"),
    ("client.quota.callback.class", "A Java class that decides on quotas. It has no effect, because ottla has no JVM.",
        "CLASS", None),
    ("connections.max.idle.ms", "How long a connection may be idle before it is closed.",
        "LONG", 600000, None, None, "e"),
    ("controller.quota.window.num",
        "Over how many windows `controller_mutation_rate` is measured; what the rate allows in all of them may be used at once.",
        "INT", 11, 1, None, "e"),
    ("controller.quota.window.size.seconds", "How long each of those windows lasts.",
        "INT", 1, 1, None, "e"),
    ("delete.records.purgatory.purge.interval.requests",
        "How many finished DeleteRecords requests gather in Kafka before they are removed.",
        "INT", 1),
    ("fetch.max.bytes", "The most bytes that one fetch returns; a first batch that is larger is returned whole.",
        "INT", 57671680, 1024, None, "e"),
    ("fetch.purgatory.purge.interval.requests", "How many finished fetches gather in Kafka before they are removed.",
        "INT", 1000),
    ("inter.broker.listener.name",
        "Which of `listeners` other brokers use; by default the first with the protocol `security.inter.broker.protocol`.",
        "STRING", None, None, None, "e"),
    ("kafka.metrics.polling.interval.secs", "How often Java reporters of metrics are polled.",
        "INT", 10, 1),
    ("kafka.metrics.reporters", "Java classes that report metrics.",
        "LIST", ()),
    ("listener.security.protocol.map",
        "The security protocol of each listener name, as NAME:PROTOCOL pairs.",
        "STRING", "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", None, None, "be"),
    ("listeners",
        "The addresses on which the broker listens, as NAME://host:port. An empty host means every interface, port 0 a free "
        "port. The default is 127.0.0.1:9092.",
        "LIST", ("PLAINTEXT://127.0.0.1:9092",), None, None, "be"),
    ("max.connection.creation.rate",
        "The most new connections per second, for the broker and for each listener without its own limit; further ones wait.",
        "INT", INT_MAX, 0, None, "ce"),
    ("max.connections", "The most connections of the broker, over all listeners; further ones are closed at once.",
        "INT", INT_MAX, 0, None, "ce"),
    ("max.connections.per.ip", "The most connections from one address; further ones are closed at once.",
        "INT", INT_MAX, 0, None, "ce"),
    ("max.connections.per.ip.overrides", "Other limits for some addresses, as host:count pairs.",
        "STRING", "", None, None, "ce"),
    ("max.incremental.fetch.session.cache.slots", "The most fetch sessions kept.",
        "INT", 1000, 0, None, "e"),
    ("max.request.partition.size.limit", "The most partitions in one answer to DescribeTopicPartitions.",
        "INT", 2000, 1, None, "e"),
    ("metric.reporters", "Java classes that report metrics. They have no effect, because ottla has no JVM.",
        "LIST", ("org.apache.kafka.common.metrics.JmxReporter",), None, None, "c"),
    ("metrics.num.samples", "How many samples a metric consists of.",
        "INT", 2, 1),
    ("metrics.recording.level", "Which metrics are kept: INFO, DEBUG or TRACE.",
        "STRING", "INFO"),
    ("metrics.sample.window.ms", "How long a sample of a metric lasts.",
        "LONG", 30000, 1),
    ("num.io.threads", "How many threads handle requests in Kafka. ottla has one event loop.",
        "INT", 8, 1, None, "c"),
    ("num.network.threads", "How many threads read and write sockets in Kafka. ottla has one event loop.",
        "INT", 3, 1, None, "c"),
    ("producer.purgatory.purge.interval.requests", "How many finished Produce requests gather in Kafka before removal.",
        "INT", 1000),
    ("queued.max.request.bytes", "How many bytes of requests may wait, in all, before reading stops; -1 is no limit.",
        "LONG", -1, None, None, "e"),
    ("queued.max.requests", "How many requests may wait, over all connections, for an earlier answer before reading stops.",
        "INT", 500, 1, None, "e"),
    ("quota.window.num", "Over how many windows clients' quotas and the rates of new connections are measured.",
        "INT", 11, 1, None, "e"),
    ("quota.window.size.seconds",
        "How long each of those windows lasts, which is also the longest throttling for request time and of a new connection.",
        "INT", 1, 1, None, "e"),
    ("socket.connection.setup.timeout.max.ms", "How long this broker waits at most for a connection that it opens.",
        "LONG", 30000, None, None, "e"),
    ("socket.connection.setup.timeout.ms", "The first wait for a connection that this broker opens; it grows with failures.",
        "LONG", 10000, None, None, "e"),
    ("socket.listen.backlog.size", "How many connections may wait to be accepted.",
        "INT", 50, 1, None, "e"),
    ("socket.receive.buffer.bytes",
        "SO_RCVBUF of clients' connections. With Kafka's default, and with -1, the kernel adapts it, which is faster.",
        "INT", 102400, None, None, "e"),
    ("socket.request.max.bytes", "The size of the longest request; a connection that announces a longer one is closed.",
        "INT", 104857600, 1, None, "e"),
    ("socket.send.buffer.bytes",
        "SO_SNDBUF of clients' connections. With Kafka's default, and with -1, the kernel adapts it, which is faster; a listener "
        "at a loopback address takes 256 KiB then, which is faster there.",
        "INT", 102400, None, None, "e"),
    ("telemetry.max.bytes", "The most bytes of one push of client metrics, compressed and decompressed. A larger one is refused, "
        "whether or not `ottla.client.metrics` is true.",
        "INT", 1048576, 1, None, "e"),
)
# fmt: on
