"""What the broker's settings are for, in our words: for DescribeConfigs and the documentation. Loaded at the first question.

Settings that are the default of a topic's or a group's have no text here: server/settings/broker_config.py takes that of the
topic's or group's.
"""

from __future__ import annotations

from typing import Final

DOCS: Final[dict[str, str]] = {
    "add.partitions.to.txn.retry.backoff.max.ms": (
        "The longest wait between tries while the previous transaction of a producer is still being completed."
    ),
    "add.partitions.to.txn.retry.backoff.ms": (
        "The first wait between tries while the previous transaction of a producer is still being completed."
    ),
    "advertised.listeners": (
        "Where clients are told to connect, as NAME://host:port for each of `listeners`; what is not named advertises "
        "itself. Port 0 is the one that was bound."
    ),
    "alter.config.policy.class.name": "A Java class that judges changes of settings. There is no JVM here: without effect.",
    "alter.log.dirs.replication.quota.window.num": "Samples kept for the quota of moves between log directories.",
    "alter.log.dirs.replication.quota.window.size.seconds": "How long each of those samples lasts.",
    "authorizer.class.name": "What decides who may do what. Refused while ottla has no authorization.",
    "auto.create.topics.enable": "Whether a topic that a producer or a consumer asks for comes into being by that.",
    "auto.leader.rebalance.enable": "Whether leadership goes back to preferred replicas by itself.",
    "background.threads": "Threads for background work of Kafka's.",
    "broker.heartbeat.interval.ms": "How often a broker tells its controller that it is alive.",
    "broker.id": "The old name of `node.id`.",
    "broker.rack": "Where this broker stands, so that replicas can be spread and consumers can read nearby.",
    "broker.session.timeout.ms": "How long a broker may be silent before its controller counts it out.",
    "client.quota.callback.class": "A Java class that decides on quotas. There is no JVM here: without effect.",
    "config.providers": "Names of sources for values written as ${name:path}. Without effect.",
    "connection.failed.authentication.delay.ms": "How long the answer to a failed authentication is held back, against guessing.",
    "connections.max.idle.ms": "A connection on which nothing moved for so long is closed.",
    "connections.max.reauth.ms": (
        "How long an authenticated session lasts before the client must authenticate again; 0 is for ever."
    ),
    "controlled.shutdown.enable": "Whether a broker hands over its partitions before it stops.",
    "controller.listener.names": (
        "Which of `listeners` are for controllers. They are not offered to clients, and a broker that is its own quorum "
        "does not open them."
    ),
    "controller.performance.always.log.threshold.ms": "A controller's operation that took longer is logged.",
    "controller.performance.sample.period.ms": "How often a controller sums up how long its operations took.",
    "controller.quorum.append.linger.ms": "How long a controller gathers records before it writes them.",
    "controller.quorum.auto.join.enable": "Whether a controller makes itself a voter.",
    "controller.quorum.bootstrap.servers": (
        "Addresses of controllers from which the quorum is found. A new directory then names its voters in the metadata log."
    ),
    "controller.quorum.election.backoff.max.ms": "The longest wait before the next election after one without a winner.",
    "controller.quorum.election.timeout.ms": "How long a candidate waits for votes.",
    "controller.quorum.fetch.max.bytes": "The most that one fetch of the metadata log returns.",
    "controller.quorum.fetch.snapshot.max.bytes": "The most that one fetch of a snapshot returns.",
    "controller.quorum.fetch.timeout.ms": (
        "How long a voter goes without a successful fetch before it wants to lead, and a leader without a majority's "
        "before it gives up."
    ),
    "controller.quorum.request.timeout.ms": "How long a request between controllers may take.",
    "controller.quorum.retry.backoff.ms": "The wait before a request between controllers is sent again.",
    "controller.quorum.voters": "The controllers, as id@host:port. Only this node itself is possible yet.",
    "controller.quota.window.num": (
        "Windows that `controller_mutation_rate` is measured over: what one would give in all of them may be used at once."
    ),
    "controller.quota.window.size.seconds": "How long each of those windows lasts.",
    "controller.socket.timeout.ms": "How long a request to the controller may take.",
    "cordoned.log.dirs": "Log directories that get no new partitions; `*` is all.",
    "create.topic.policy.class.name": "A Java class that judges new topics. There is no JVM here: without effect.",
    "default.replication.factor": "Replicas of a topic that is created without saying how many.",
    "delegation.token.expiry.check.interval.ms": "How often expired delegation tokens are removed.",
    "delegation.token.expiry.time.ms": "How long a delegation token lasts unless it is renewed.",
    "delegation.token.max.lifetime.ms": "How long a delegation token lasts at most.",
    "delegation.token.secret.key": "What delegation tokens, which need a listener with a login, are signed with.",
    "delete.records.purgatory.purge.interval.requests": (
        "How many finished DeleteRecords requests Kafka gathers before it forgets them."
    ),
    "delete.topic.enable": "Whether topics can be deleted.",
    "early.start.listeners": "Listeners that are open before a broker may serve.",
    "errors.deadletterqueue.auto.create.topics.enable": (
        "Whether the dead letter topic of a share group is created when it is needed."
    ),
    "errors.deadletterqueue.topic.name.prefix": "How the names of dead letter topics must begin.",
    "fetch.max.bytes": "The most that one fetch returns; its first batch is returned whole even beyond.",
    "fetch.purgatory.purge.interval.requests": "How many finished fetches Kafka gathers before it forgets them.",
    "follower.fetch.last.tiered.offset.enable": "Whether a new follower begins behind what tiered storage has.",
    "follower.replication.throttled.rate": "The most bytes per second that throttled replicas of this broker fetch.",
    "group.consumer.assignors": "Assignors of consumer groups (KIP-848), the first being the default.",
    "group.consumer.max.assignment.interval.ms": "The most that a consumer group may set for its assignment interval.",
    "group.consumer.max.heartbeat.interval.ms": "The most that a consumer group may set for its heartbeat interval.",
    "group.consumer.max.session.timeout.ms": "The most that a consumer group may set for its session timeout.",
    "group.consumer.max.size": "The most members of a consumer group.",
    "group.consumer.migration.policy": (
        "Whether groups may change between the classic and the consumer protocol: upgrade, downgrade, bidirectional or disabled."
    ),
    "group.consumer.min.assignment.interval.ms": "The least that a consumer group may set for its assignment interval.",
    "group.consumer.min.heartbeat.interval.ms": "The least that a consumer group may set for its heartbeat interval.",
    "group.consumer.min.session.timeout.ms": "The least that a consumer group may set for its session timeout.",
    "group.consumer.regex.refresh.interval.ms": "How often a group's regular expression is matched against the topics again.",
    "group.coordinator.append.linger.ms": (
        "How long a group coordinator gathers records before it writes them; -1 adapts to the load."
    ),
    "group.coordinator.background.threads": "Threads for a group coordinator's long tasks.",
    "group.coordinator.cached.buffer.max.bytes": "The largest buffer that a group coordinator keeps for its next write.",
    "group.coordinator.rebalance.protocols": "Kinds of groups that are served.",
    "group.coordinator.threads": "Threads of the group coordinator.",
    "group.initial.rebalance.delay.ms": (
        "How long the first rebalance of an empty group waits for more members; each that joins extends it, up to the "
        "rebalance timeout. At least a millisecond."
    ),
    "group.max.session.timeout.ms": "The longest session timeout that a member of a classic group may ask for.",
    "group.max.size": "The most members of a classic group.",
    "group.min.session.timeout.ms": "The shortest session timeout that a member of a classic group may ask for.",
    "group.share.assignors": "Assignors of share groups.",
    "group.share.dlq.manager.class.name": "The Java class that writes to dead letter topics.",
    "group.share.initialize.retry.interval.ms": "The wait before the state of a share group's partition is initialized again.",
    "group.share.max.assignment.interval.ms": "The most that a share group may set for its assignment interval.",
    "group.share.max.delivery.count.limit": "The most that a share group may set for its delivery count limit.",
    "group.share.max.heartbeat.interval.ms": "The most that a share group may set for its heartbeat interval.",
    "group.share.max.partition.max.record.locks": "The most that a share group may set for its record locks.",
    "group.share.max.record.lock.duration.ms": "The most that a share group may set for the duration of its locks.",
    "group.share.max.session.timeout.ms": "The most that a share group may set for its session timeout.",
    "group.share.max.share.sessions": "The most share sessions of this broker.",
    "group.share.max.size": "The most members of a share group.",
    "group.share.min.assignment.interval.ms": "The least that a share group may set for its assignment interval.",
    "group.share.min.delivery.count.limit": "The least that a share group may set for its delivery count limit.",
    "group.share.min.heartbeat.interval.ms": "The least that a share group may set for its heartbeat interval.",
    "group.share.min.partition.max.record.locks": "The least that a share group may set for its record locks.",
    "group.share.min.record.lock.duration.ms": "The least that a share group may set for the duration of its locks.",
    "group.share.min.session.timeout.ms": "The least that a share group may set for its session timeout.",
    "group.share.persister.class.name": "The Java class that keeps the state of share groups.",
    "group.streams.assignors": "Assignors of streams groups, the first being the default.",
    "group.streams.max.assignment.interval.ms": "The most that a streams group may set for its assignment interval.",
    "group.streams.max.heartbeat.interval.ms": "The most that a streams group may set for its heartbeat interval.",
    "group.streams.max.session.timeout.ms": "The most that a streams group may set for its session timeout.",
    "group.streams.max.size": "The most members of a streams group.",
    "group.streams.max.standby.replicas": "The most that a streams group may set for its standby copies.",
    "group.streams.max.warmup.replicas": "The most that a streams group may set for its copies that warm up.",
    "group.streams.min.assignment.interval.ms": "The least that a streams group may set for its assignment interval.",
    "group.streams.min.heartbeat.interval.ms": "The least that a streams group may set for its heartbeat interval.",
    "group.streams.min.session.timeout.ms": "The least that a streams group may set for its session timeout.",
    "group.streams.min.task.offset.interval.ms": "The least that a streams group may set for its task offset interval.",
    "group.streams.topology.description.plugin.class": "A Java class that keeps descriptions of topologies.",
    "initial.broker.registration.timeout.ms": "How long a broker that starts tries to register before it gives up.",
    "inter.broker.listener.name": (
        "Which of `listeners` other brokers use; without it the first of the protocol `security.inter.broker.protocol`."
    ),
    "internal.metadata.delete.delay.millis": "How long removed files of the metadata log stay on disk.",
    "internal.metadata.log.segment.bytes": "A segment size of the metadata log below the bounds, for tests.",
    "internal.metadata.max.batch.size.in.bytes": "The largest batch of metadata records.",
    "kafka.metrics.polling.interval.secs": "How often Java reporters of metrics are polled.",
    "kafka.metrics.reporters": "Java classes that report metrics.",
    "leader.imbalance.check.interval.seconds": "How often it is looked whether leadership should go back to preferred replicas.",
    "leader.replication.throttled.rate": "The most bytes per second that this broker gives to throttled replicas.",
    "listener.security.protocol.map": (
        "The security protocol of each listener name, as NAME:PROTOCOL pairs. PLAINTEXT is the one spoken yet."
    ),
    "listeners": (
        "Where to listen, as NAME://host:port. An empty host is every interface, port 0 a free one. Without any, 127.0.0.1:9092."
    ),
    "log.cleaner.backoff.ms": "How long the log cleaner rests when nothing is left to compact.",
    "log.cleaner.dedupe.buffer.size": (
        "Memory of the log cleaner for keys, all threads together, 24 bytes a key. What does not fit waits for the next turn."
    ),
    "log.cleaner.enable": "Whether logs are compacted.",
    "log.cleaner.io.buffer.load.factor": "How full the log cleaner's table of keys may get.",
    "log.cleaner.io.buffer.size": "Memory of the log cleaner for reading and writing, all threads together.",
    "log.cleaner.io.max.bytes.per.second": "The most that the log cleaner reads and writes, all threads together.",
    "log.cleaner.threads": (
        "How many logs may be compacted at once. In ottla each thread is a process, which lives as long as there is work."
    ),
    "log.dir": "Where everything is kept, if `log.dirs` does not say: ./ottla-data without either.",
    "log.dir.failure.timeout.ms": "How long a broker that cannot report a failed log directory goes on before it stops.",
    "log.dirs": "The directories that partitions are kept in.",
    "log.flush.offset.checkpoint.interval.ms": (
        "How often it is written down up to where logs are safely on disk, which is where recovery begins."
    ),
    "log.flush.scheduler.interval.ms": (
        "How often it is looked whether a log must be forced to disk; where log.flush.interval.ms is not set it is that too."
    ),
    "log.flush.start.offset.checkpoint.interval.ms": "How often the first offsets of logs are written down.",
    "log.initial.task.delay.ms": "How long recurring tasks on logs wait after the start.",
    "log.retention.check.interval.ms": "How often it is looked whether segments are past their retention.",
    "max.connection.creation.rate": (
        "The most new connections per second, of the broker and of each listener without its own; one more has to wait."
    ),
    "max.connections": "The most connections of the broker, over all listeners; one more is closed at once.",
    "max.connections.per.ip": "The most connections from one address.",
    "max.connections.per.ip.overrides": "Other limits for some addresses, as host:count pairs.",
    "max.incremental.fetch.session.cache.slots": "The most fetch sessions kept.",
    "max.request.partition.size.limit": "The most partitions in one answer to DescribeTopicPartitions.",
    "metadata.log.dir": "The log directory of the metadata log; the first of `log.dirs` if not set.",
    "metadata.log.max.record.bytes.between.snapshots": "A snapshot of the metadata is due after this many bytes of new records.",
    "metadata.log.max.snapshot.interval.ms": (
        "A snapshot of the metadata is due after this time if there are new records; 0 is never."
    ),
    "metadata.log.segment.bytes": "The size at which the metadata log begins its next segment.",
    "metadata.log.segment.ms": "The age at which the metadata log begins its next segment.",
    "metadata.max.idle.interval.ms": "How often an idle controller writes an empty record; 0 is never.",
    "metadata.max.retention.bytes": "The size beyond which old segments and snapshots of the metadata are deleted.",
    "metadata.max.retention.ms": "The age beyond which old segments and snapshots of the metadata are deleted.",
    "metric.reporters": "Java classes that report metrics. There is no JVM here: without effect.",
    "metrics.num.samples": "Samples that a metric is made of.",
    "metrics.recording.level": "Which metrics are kept: INFO, DEBUG or TRACE.",
    "metrics.sample.window.ms": "How long a sample of a metric lasts.",
    "node.id": "The number of this node, which no other node of the cluster has.",
    "num.io.threads": "Threads that handle requests in Kafka. ottla has one event loop.",
    "num.network.threads": "Threads that read and write sockets in Kafka. ottla has one event loop.",
    "num.partitions": "Partitions of a topic that is created without saying how many.",
    "num.recovery.threads.per.data.dir": "Threads that check the logs of a directory when the broker starts after a stop that "
    "was not clean. What is changed while it runs counts from the next start on.",
    "num.replica.alter.log.dirs.threads": "Threads that move partitions between log directories.",
    "num.replica.fetchers": "Threads that fetch from each other broker.",
    "offset.metadata.max.bytes": "The longest text that may go with a committed offset.",
    "offsets.commit.timeout.ms": "How long a commit of offsets may take to be replicated.",
    "offsets.load.buffer.size": "Bytes read at a time while groups and their offsets are loaded.",
    "offsets.retention.check.interval.ms": "How often expired offsets are looked for.",
    "offsets.retention.minutes": "How long the offsets of a group without members are kept.",
    "offsets.topic.compression.codec": "The codec of `__consumer_offsets`: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    "offsets.topic.num.partitions": "Partitions of `__consumer_offsets` when it is created.",
    "offsets.topic.replication.factor": (
        "Replicas of `__consumer_offsets` when it is created; as many as there are brokers if those are fewer."
    ),
    "offsets.topic.segment.bytes": "The segment size of `__consumer_offsets`.",
    "principal.builder.class": "The Java class that makes a principal of a connection.",
    "process.roles": "What this node is: `broker,controller` is a broker that is its own quorum.",
    "producer.id.expiration.check.interval.ms": "How often expired producer states are looked for.",
    "producer.id.expiration.ms": (
        "How long the state of an idle producer id is kept. Transactional producers must not be idle longer."
    ),
    "producer.purgatory.purge.interval.requests": "How many finished produce requests Kafka gathers before it forgets them.",
    "queued.max.request.bytes": "Bytes of requests that may wait, of all connections, before reading stops; -1 is no limit.",
    "queued.max.requests": "Requests that may wait, of all connections, for the answer before theirs; then reading stops.",
    "quota.window.num": "Windows that clients' quotas are measured over, and the rates of new connections.",
    "quota.window.size.seconds": (
        "How long each of those windows lasts; and the longest wait for who took too much time, or for a connection."
    ),
    "remote.fetch.max.wait.ms": "The longest that a fetch waits for tiered storage.",
    "remote.list.offsets.request.timeout.ms": "The longest that ListOffsets waits for tiered storage.",
    "remote.log.index.file.cache.total.size.bytes": "Disk space for indexes fetched from tiered storage.",
    "remote.log.index.file.cache.ttl.ms": "How long an unused index from tiered storage is kept.",
    "remote.log.manager.copier.thread.pool.size": "Threads that copy segments to tiered storage.",
    "remote.log.manager.copy.max.bytes.per.second": "The most that is copied to tiered storage.",
    "remote.log.manager.copy.quota.window.num": "Samples kept for that quota of copying.",
    "remote.log.manager.copy.quota.window.size.seconds": "How long each of those samples lasts.",
    "remote.log.manager.expiration.thread.pool.size": "Threads that delete expired segments from tiered storage.",
    "remote.log.manager.fetch.max.bytes.per.second": "The most that is fetched from tiered storage.",
    "remote.log.manager.fetch.quota.window.num": "Samples kept for that quota of fetching.",
    "remote.log.manager.fetch.quota.window.size.seconds": "How long each of those samples lasts.",
    "remote.log.manager.follower.thread.pool.size": "Threads for followers' tasks of tiered storage.",
    "remote.log.manager.task.interval.ms": "How often tasks of tiered storage run.",
    "remote.log.manager.task.retry.backoff.max.ms": "The longest wait before a failed task of tiered storage runs again.",
    "remote.log.manager.task.retry.backoff.ms": "The first wait before a failed task of tiered storage runs again.",
    "remote.log.manager.task.retry.jitter": "By how much those waits are spread.",
    "remote.log.manager.thread.pool.size": "Threads of tiered storage, before there were kinds of them.",
    "remote.log.metadata.custom.metadata.max.bytes": "The longest text that a tiered storage may keep about a segment.",
    "remote.log.metadata.manager.class.name": "The Java class that knows what tiered storage holds.",
    "remote.log.metadata.manager.class.path": "Where that class is found.",
    "remote.log.metadata.manager.impl.prefix": "How names of that class's own settings begin.",
    "remote.log.metadata.manager.listener.name": "The listener that that class connects to.",
    "remote.log.reader.max.pending.tasks": "Reads from tiered storage that may wait.",
    "remote.log.reader.threads": "Threads that read from tiered storage.",
    "remote.log.storage.manager.class.name": "The Java class that stores segments remotely.",
    "remote.log.storage.manager.class.path": "Where that class is found.",
    "remote.log.storage.manager.impl.prefix": "How names of that class's own settings begin.",
    "remote.log.storage.system.enable": "Whether there is tiered storage. There is none here.",
    "replica.alter.log.dirs.io.max.bytes.per.second": "The most bytes per second that moves between log directories take.",
    "replica.fetch.backoff.ms": "How long a follower waits after a fetch that failed.",
    "replica.fetch.max.bytes": "The most a follower fetches of one partition; a first batch comes whole even beyond.",
    "replica.fetch.min.bytes": "Bytes that a follower's fetch waits for.",
    "replica.fetch.response.max.bytes": "The most that one fetch of a follower returns.",
    "replica.fetch.wait.max.ms": "The longest that a follower's fetch waits for new records.",
    "replica.high.watermark.checkpoint.interval.ms": "How often high watermarks are written down.",
    "replica.lag.time.max.ms": "A follower that has not caught up for so long is out of sync.",
    "replica.selector.class": "The Java class that finds the replica a consumer should read from.",
    "replica.socket.receive.buffer.bytes": "The receive buffer of a follower's connections.",
    "replica.socket.timeout.ms": "How long a follower's request may take.",
    "replication.quota.window.num": "Samples kept for the quotas of replication.",
    "replication.quota.window.size.seconds": "How long each of those samples lasts.",
    "request.timeout.ms": "How long a request that this broker sends may take.",
    "sasl.client.callback.handler.class": "The Java class that answers SASL questions as a client.",
    "sasl.enabled.mechanisms": "SASL mechanisms that clients may use.",
    "sasl.jaas.config": "Login of a listener in JAAS's form.",
    "sasl.kerberos.kinit.cmd": "The kinit command of Kerberos.",
    "sasl.kerberos.min.time.before.relogin": "The least time between two Kerberos logins, in milliseconds.",
    "sasl.kerberos.principal.to.local.rules": "Rules that make short names of Kerberos principals.",
    "sasl.kerberos.service.name": "The Kerberos name of the service.",
    "sasl.kerberos.ticket.renew.jitter": "By how much renewals of Kerberos tickets are spread.",
    "sasl.kerberos.ticket.renew.window.factor": "The share of a ticket's life after which it is renewed.",
    "sasl.login.callback.handler.class": "The Java class that answers questions at login.",
    "sasl.login.class": "The Java class that logs in.",
    "sasl.login.connect.timeout.ms": "How long a connection to the authentication provider may take.",
    "sasl.login.read.timeout.ms": "How long an answer of the authentication provider may take.",
    "sasl.login.refresh.buffer.seconds": "How long before its end a login is renewed at the latest.",
    "sasl.login.refresh.min.period.seconds": "The least time between two renewals of a login.",
    "sasl.login.refresh.window.factor": "The share of a login's life after which it is renewed.",
    "sasl.login.refresh.window.jitter": "By how much renewals of logins are spread.",
    "sasl.login.retry.backoff.max.ms": "The longest wait between tries to log in.",
    "sasl.login.retry.backoff.ms": "The first wait between tries to log in.",
    "sasl.mechanism.controller.protocol": "The SASL mechanism between brokers and controllers.",
    "sasl.mechanism.inter.broker.protocol": "The SASL mechanism between brokers.",
    "sasl.oauthbearer.allow.unverified.audience": "Whether OAuth tokens for any audience are taken.",
    "sasl.oauthbearer.allow.unverified.issuer": "Whether OAuth tokens of any issuer are taken.",
    "sasl.oauthbearer.assertion.algorithm": "How an assertion for OAuth is signed.",
    "sasl.oauthbearer.assertion.claim.aud": "The audience that an assertion for OAuth claims.",
    "sasl.oauthbearer.assertion.claim.exp.seconds": "How long an assertion for OAuth is good.",
    "sasl.oauthbearer.assertion.claim.iss": "The issuer that an assertion for OAuth claims.",
    "sasl.oauthbearer.assertion.claim.jti.include": "Whether an assertion for OAuth has an id of its own.",
    "sasl.oauthbearer.assertion.claim.nbf.seconds": "How long before now an assertion for OAuth begins to be good.",
    "sasl.oauthbearer.assertion.claim.sub": "The subject that an assertion for OAuth claims.",
    "sasl.oauthbearer.assertion.file": "The file of a ready assertion for OAuth.",
    "sasl.oauthbearer.assertion.private.key.file": "The file of the key that signs assertions for OAuth.",
    "sasl.oauthbearer.assertion.private.key.passphrase": "The passphrase of that key.",
    "sasl.oauthbearer.assertion.template.file": "The file of claims and headers for assertions for OAuth.",
    "sasl.oauthbearer.client.credentials.client.id": "Who asks for OAuth tokens.",
    "sasl.oauthbearer.client.credentials.client.secret": "The secret of who asks for OAuth tokens.",
    "sasl.oauthbearer.clock.skew.seconds": "By how much the clocks of brokers and OAuth issuers may differ.",
    "sasl.oauthbearer.expected.audience": "Audiences that an OAuth token must be for.",
    "sasl.oauthbearer.expected.issuer": "The issuer that an OAuth token must be from.",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "How often the keys of OAuth tokens are fetched again.",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "The longest wait between tries to fetch those keys.",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "The first wait between tries to fetch those keys.",
    "sasl.oauthbearer.jwks.endpoint.url": "Where the keys of OAuth tokens are fetched.",
    "sasl.oauthbearer.jwt.retriever.class": "The Java class that gets OAuth tokens.",
    "sasl.oauthbearer.jwt.validator.class": "The Java class that checks OAuth tokens.",
    "sasl.oauthbearer.scope": "The scope that is asked for with an OAuth token.",
    "sasl.oauthbearer.scope.claim.name": "The claim of an OAuth token that holds its scope.",
    "sasl.oauthbearer.sub.claim.name": "The claim of an OAuth token that holds its subject.",
    "sasl.oauthbearer.token.endpoint.url": "Where OAuth tokens are got.",
    "sasl.server.callback.handler.class": "The Java class that answers SASL questions as a server.",
    "sasl.server.max.receive.size": "The longest token that is taken during authentication.",
    "security.inter.broker.protocol": "The security protocol between brokers, where no listener is named for it.",
    "security.providers": "Java classes that provide security algorithms.",
    "server.max.startup.time.ms": "How long a start may take.",
    "share.coordinator.append.linger.ms": (
        "How long the share coordinator gathers records before it writes them; -1 adapts to the load."
    ),
    "share.coordinator.cached.buffer.max.bytes": "The largest buffer that the share coordinator keeps for its next write.",
    "share.coordinator.cold.partition.snapshot.interval.ms": "How often idle share partitions are written anew.",
    "share.coordinator.load.buffer.size": "Bytes read at a time while share group states are loaded.",
    "share.coordinator.snapshot.update.records.per.snapshot": "Updates of a share partition between two of its snapshots.",
    "share.coordinator.state.topic.compression.codec": "The codec of `__share_group_state`, by its number.",
    "share.coordinator.state.topic.min.isr": "Replicas of `__share_group_state` that must be in sync.",
    "share.coordinator.state.topic.num.partitions": "Partitions of `__share_group_state` when it is created.",
    "share.coordinator.state.topic.prune.interval.ms": (
        "How often records that nobody needs are deleted from `__share_group_state`."
    ),
    "share.coordinator.state.topic.replication.factor": "Replicas of `__share_group_state` when it is created.",
    "share.coordinator.state.topic.segment.bytes": "The segment size of `__share_group_state`.",
    "share.coordinator.threads": "Threads of the share coordinator.",
    "share.coordinator.write.timeout.ms": "How long a write of the share coordinator may take to be replicated.",
    "share.fetch.purgatory.purge.interval.requests": "How many finished share fetches Kafka gathers before it forgets them.",
    "socket.connection.setup.timeout.max.ms": "The longest that this broker waits for a connection it opens.",
    "socket.connection.setup.timeout.ms": "The first wait for a connection that this broker opens; it grows with failures.",
    "socket.listen.backlog.size": "Connections that may wait to be accepted.",
    "socket.receive.buffer.bytes": (
        "SO_RCVBUF of clients' connections. At Kafka's default, and at -1, the kernel chooses by demand, which is faster."
    ),
    "socket.request.max.bytes": "The longest request; a connection that announces a longer one is closed.",
    "socket.send.buffer.bytes": (
        "SO_SNDBUF of clients' connections. At Kafka's default, and at -1, the kernel chooses by demand, which is faster."
    ),
    "ssl.allow.dn.changes": "Whether a new certificate may have another name.",
    "ssl.allow.san.changes": "Whether a new certificate may lack alternative names of the old one.",
    "ssl.cipher.suites": "Ciphers that may be used; empty is all.",
    "ssl.client.auth": "Whether clients need a certificate: required, requested or none.",
    "ssl.enabled.protocols": "Versions of TLS that may be used.",
    "ssl.endpoint.identification.algorithm": "How the name in a server's certificate is checked; empty is not at all.",
    "ssl.engine.factory.class": "The Java class that makes TLS engines.",
    "ssl.key.password": "The password of the private key.",
    "ssl.keymanager.algorithm": "Java's algorithm for key managers.",
    "ssl.keystore.certificate.chain": "The certificates, as PEM.",
    "ssl.keystore.key": "The private key, as PEM.",
    "ssl.keystore.location": "The file of key and certificates.",
    "ssl.keystore.password": "The password of that file.",
    "ssl.keystore.type": "The format of that file.",
    "ssl.principal.mapping.rules": "Rules that make names of users of certificates' names.",
    "ssl.protocol": "The version of TLS that is preferred.",
    "ssl.provider": "Java's provider of TLS.",
    "ssl.secure.random.implementation": "Java's source of random numbers for TLS.",
    "ssl.trustmanager.algorithm": "Java's algorithm for trust managers.",
    "ssl.truststore.certificates": "Trusted certificates, as PEM.",
    "ssl.truststore.location": "The file of trusted certificates.",
    "ssl.truststore.password": "The password of that file.",
    "ssl.truststore.type": "The format of that file.",
    "telemetry.max.bytes": "The longest push of client metrics.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "How often transactions that took too long are aborted.",
    "transaction.max.timeout.ms": "The longest timeout that a transaction may ask for.",
    "transaction.partition.verification.enable": (
        "Whether a partition checks with the coordinator that a transaction has it before it takes records."
    ),
    "transaction.remove.expired.transaction.cleanup.interval.ms": "How often unused transactional ids are removed.",
    "transaction.state.log.load.buffer.size": "Bytes read at a time while transactions are loaded.",
    "transaction.state.log.min.isr": "Replicas of `__transaction_state` that must be in sync.",
    "transaction.state.log.num.partitions": "Partitions of `__transaction_state` when it is created.",
    "transaction.state.log.replication.factor": (
        "Replicas of `__transaction_state` when it is created; as many as there are brokers if those are fewer."
    ),
    "transaction.state.log.segment.bytes": "The segment size of `__transaction_state`.",
    "transaction.two.phase.commit.enable": "Whether producers may prepare a transaction and complete it later (KIP-939).",
    "transactional.id.expiration.ms": "How long an unused transactional id is kept.",
    "unclean.leader.election.interval.ms": (
        "How often the controller looks for partitions that only an unclean election can bring back."
    ),
    "unstable.api.versions.enable": "Whether versions still in development are offered.",
    "unstable.feature.versions.enable": "Whether feature levels still in development are offered.",
}
