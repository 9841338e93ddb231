"""MetadataImage: the cluster as the metadata records up to some offset describe it. Only records change it.

`apply_all` applies the records of one batch, which is one operation of the controller; `apply` applies one record. Events go out
after the whole batch is applied, so a subscriber never sees half an operation; subscribers must not raise. The records that a
start replays and those that the running broker appends go through the same methods, and so do those that a quorum's controllers
append; the large ones among these take effect at once as well, but in steps (staging.py).

`_APPLY` names every record type of Kafka 4.4's metadata. Those that no other part of the image depends on (quotas, credentials,
tokens, access rules) are kept whole, by their identity, for modules of their own and for snapshots. Those with nothing to keep
are listed as `_nothing` with the reason.

Lookups that a request makes are single dictionary hits: `topics` by name, `topics_by_id`, `TopicImage.partitions` by index. The
values are never changed in place, only the dictionaries are, so an event may keep them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from ottla.server.metadata.names import metrics_name
from ottla.wire.metadata_records import MetadataError
from ottla.wire.primitives import ZERO_UUID, WireStruct, uuid_to_text

if TYPE_CHECKING:  # record classes are imported with the first record of their kind (wire/metadata_records.py)
    from ottla.wire.messages.internal.access_control_entry_record import AccessControlEntryRecord
    from ottla.wire.messages.internal.broker_registration_change_record import BrokerRegistrationChangeRecord
    from ottla.wire.messages.internal.clear_elr_record import ClearElrRecord
    from ottla.wire.messages.internal.client_quota_record import ClientQuotaRecord
    from ottla.wire.messages.internal.config_record import ConfigRecord
    from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
    from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
    from ottla.wire.messages.internal.partition_record import PartitionRecord
    from ottla.wire.messages.internal.producer_ids_record import ProducerIdsRecord
    from ottla.wire.messages.internal.register_broker_record import RegisterBrokerRecord
    from ottla.wire.messages.internal.remove_access_control_entry_record import RemoveAccessControlEntryRecord
    from ottla.wire.messages.internal.remove_topic_record import RemoveTopicRecord
    from ottla.wire.messages.internal.topic_record import TopicRecord

TOPIC: Final = 2
"""Resource types of configs, as in ConfigRecord and the config APIs."""
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32

NO_LEADER: Final = -1
RECOVERED: Final = 0
"""The normal recovery state of a leader; 1 is that of a leader that was not in sync when it was elected."""
_NO_LEADER_CHANGE: Final = -2
_NO_RECOVERY_CHANGE: Final = -1
UNASSIGNED: Final = ZERO_UUID  # directory of a replica that its broker has not placed yet (KIP-858)
MIGRATING: Final = ZERO_UUID[:-1] + b"\x02"  # directory of a replica that no record has said anything about (KIP-858)


class Endpoint(NamedTuple):
    """An address at which a broker or controller listens. `security_protocol` is 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT or 3
    SASL_SSL."""

    name: str
    host: str
    port: int
    security_protocol: int


class BrokerImage(NamedTuple):
    """A registered broker. `epoch` is the offset of its registration record; `features` maps names to (lowest, highest) level."""

    broker_id: int
    epoch: int
    incarnation_id: bytes
    endpoints: dict[str, Endpoint]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[bytes, ...]
    cordoned_log_dirs: tuple[bytes, ...]
    features: dict[str, tuple[int, int]]

    @property
    def active(self) -> bool:
        """Returns whether the broker may lead partitions and be shown to clients."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def cordoned(self) -> bool:
        """Returns whether all of the broker's log directories are closed to new partitions (KIP-1066)."""
        return bool(self.log_dirs) and set(self.log_dirs) <= set(self.cordoned_log_dirs)


class PartitionImage(NamedTuple):
    """The replicas and the leadership of one partition. `directories` has one directory id for each replica. `leader` is -1 if
    there is none.

    `leader_epoch` counts elections, `partition_epoch` every change. `elr` are the eligible leader replicas (KIP-966).
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    def directory_of(self, broker_id: int) -> bytes | None:
        """Returns the id of the log directory that the broker's replica lies in; None if it has none."""
        return self.directories[self.replicas.index(broker_id)] if broker_id in self.replicas else None

    def directories_with(self, broker_id: int, directory_id: bytes) -> list[bytes]:
        """Returns what `directories` would be if the broker's replica lay in the directory `directory_id`."""
        pairs = zip(self.replicas, self.directories, strict=True)
        return [directory_id if replica == broker_id else directory for replica, directory in pairs]


class TopicImage:
    """A topic. Its partitions are keyed by index; all known ways of making records insert them in ascending order."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: dict[int, PartitionImage] = {}

    def __repr__(self) -> str:
        return f"TopicImage({self.name}, {uuid_to_text(self.topic_id)}, {len(self.partitions)} partitions)"


# Events are no dataclasses, because seven of those take 2 ms of every start.


class TopicCreated(WireStruct):
    """A topic was created. This comes before the PartitionChanged of its partitions."""

    __slots__ = ("topic",)

    def __init__(self, topic: TopicImage) -> None:
        self.topic = topic


class PartitionChanged(WireStruct):
    """A partition was made or changed. `partition` is its index, `image` what it is now, `previous` what it was, None if it is
    new. There may be 10,000 of these in one turn."""

    __slots__ = ("image", "partition", "previous", "topic")

    def __init__(self, topic: TopicImage, partition: int, image: PartitionImage, previous: PartitionImage | None) -> None:
        self.topic = topic
        self.partition = partition
        self.image = image
        self.previous = previous


class TopicDeleted(WireStruct):
    """The topic and its settings are gone; `topic.partitions` still has the partitions that it had."""

    __slots__ = ("topic",)

    def __init__(self, topic: TopicImage) -> None:
        self.topic = topic


class ConfigChanged(WireStruct):
    """Settings of a resource changed; `MetadataImage.config_of` has the new ones. There is no such event for a deleted topic."""

    __slots__ = ("name", "resource_type")

    def __init__(self, resource_type: int, name: str) -> None:
        self.resource_type = resource_type
        self.name = name


class BrokerChanged(WireStruct):
    """A broker was registered, changed, or is gone; then it is no longer in `MetadataImage.brokers`."""

    __slots__ = ("broker_id",)

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id


class QuotasChanged(WireStruct):
    """Client quotas changed as these records say, at most QUOTAS_AN_EVENT of them; server/metadata/quotas.py reads what all of
    them are now."""

    __slots__ = ("records",)

    def __init__(self, records: list[ClientQuotaRecord]) -> None:
        self.records = records


class AccessRulesChanged(WireStruct):
    """Access rules are gone, or new, or another has the id of one: each change as (removed, added), of which one may be None.
    There may be 10,000 of them in one event."""

    __slots__ = ("changes",)

    def __init__(self, changes: list[tuple[AccessControlEntryRecord | None, AccessControlEntryRecord | None]]) -> None:
        self.changes = changes


Event = TopicCreated | PartitionChanged | TopicDeleted | ConfigChanged | BrokerChanged | QuotasChanged | AccessRulesChanged
_EMPTY: Final[Mapping[str, str]] = {}
QUOTAS_AN_EVENT: Final = 500
"""So many changes of quotas make an event, which takes a millisecond or two to apply. Each quota is valid by itself."""
DICTIONARIES: Final = ("brokers", "topics", "topics_by_id", "configs", "features", "kept", "_alike")
"""The attributes of an image that records change in place."""


class MetadataImage:
    """The cluster's metadata, as the module's docstring describes. `highest_offset` is that of the last applied record, -1 before
    the first."""

    __slots__ = (
        "_alike", "_changed_resources", "_events", "brokers", "changes", "cluster_id", "configs", "features",
        "highest_offset", "is_reporting", "kept", "kraft_version", "next_producer_id", "subscribers", "topics", "topics_by_id",
    )  # fmt: skip

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.brokers: dict[int, BrokerImage] = {}
        self.topics: dict[str, TopicImage] = {}
        self.topics_by_id: dict[bytes, TopicImage] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.kraft_version = 0
        """From level 1 on the voters are kept in the log. The level is in a control record of the log, whose reader sets it
        here."""
        self.next_producer_id = 0
        self.highest_offset = -1
        self.changes = 0
        """Counts changes: what was derived from the image is valid as long as this number is the same."""
        self.is_reporting = False
        """True while the image has an operation some of whose events have not gone out yet."""
        self.kept: dict[tuple[object, ...], WireStruct] = {}
        """Records that are kept whole, by kind and identity."""
        self._alike: dict[str, list[str]] = {}
        """The names of topics with '.' or '_', by `metrics_name`."""
        self.subscribers: list[Callable[[Event], None]] = []
        """Those who hear of every change."""
        self._events: list[Event] = []
        self._changed_resources: set[tuple[int, str]] = set()
        """The resources of the ConfigChanged among `_events`, of which a snapshot has one for each topic with settings."""

    def config_of(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """Returns the settings of the resource itself, by name, without defaults."""
        return self.configs.get((resource_type, resource_name), _EMPTY)

    def named_like(self, name: str) -> Iterable[str]:
        """Returns the topics whose names are `name` but perhaps for '.' and '_', if it has one of these."""
        return self._alike.get(metrics_name(name), ())

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(index)

    def partition_by_id(self, topic_id: bytes, index: int) -> PartitionImage | None:
        """Returns a partition by the id of its topic."""
        found = self.topics_by_id.get(topic_id)
        return None if found is None else found.partitions.get(index)

    @property
    def metadata_version(self) -> int:
        """Returns the finalized level of `metadata.version`, 0 before the first record."""
        return self.features.get("metadata.version", 0)

    def quota(self, entity: Iterable[tuple[str, str | None]], key: str) -> float | None:
        """Returns a quota of an entity, whose names are sorted by their kinds."""
        record = self.kept.get(("quota", tuple([(kind, name or "") for kind, name in entity]), key))
        return None if record is None else cast("ClientQuotaRecord", record).value

    @property
    def has_quotas(self) -> bool:
        return any(key[0] == "quota" for key in self.kept)

    @property
    def finalized(self) -> dict[str, int]:
        """Returns the levels of all features that are above 0."""
        return self.features | {"kraft.version": self.kraft_version} if self.kraft_version else self.features

    def subscribe(self, callback: Callable[[Event], None]) -> None:
        """Calls `callback` for every change from now on, in the order of the records. It must not raise."""
        self.subscribers.append(callback)

    def apply(self, record: WireStruct, offset: int | None = None) -> None:
        """Applies one record. `offset` is its offset in the log, None for a record of a snapshot. Raises MetadataError."""
        self.apply_all((record,), offset)

    def apply_all(self, records: Iterable[WireStruct], last_offset: int | None = None) -> None:
        """Applies the records of one batch, then sends their events. Raises MetadataError, after which the image must not be
        used."""
        self.changes += 1
        for record in records:
            self.change(record)
        if last_offset is not None:
            self.highest_offset = last_offset
        events, self._events = self._events, []
        self._changed_resources.clear()
        for event in events:
            for subscriber in self.subscribers:
                subscriber(event)

    def change(self, record: WireStruct) -> None:
        """Makes the change of one record, and keeps its event. Raises MetadataError."""
        apply = _APPLY.get(type(record).__name__)
        if apply is None:
            raise MetadataError(f"{type(record).__name__} is not a metadata record")
        apply(self, record)

    def partitions_of(self, topic: TopicImage) -> dict[int, PartitionImage]:
        """Returns the partitions of a topic, for records to change them."""
        return topic.partitions

    # One method for each record type, named after it

    def _topic(self, record: TopicRecord) -> None:
        if record.name in self.topics or record.topic_id in self.topics_by_id:
            raise MetadataError(f"topic {record.name} with id {uuid_to_text(record.topic_id)} is created a second time")
        topic = TopicImage(record.name, record.topic_id)
        self.topics[record.name] = self.topics_by_id[record.topic_id] = topic
        if "." in record.name or "_" in record.name:
            self._alike[metrics_name(record.name)] = [*self.named_like(record.name), record.name]
        self._events.append(TopicCreated(topic))

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._topic_by_id(record.topic_id)
        del self.topics[topic.name], self.topics_by_id[topic.topic_id]
        self.configs.pop((TOPIC, topic.name), None)
        if "." in topic.name or "_" in topic.name:
            like = metrics_name(topic.name)
            alike = [name for name in self._alike.pop(like) if name != topic.name]
            if alike:
                self._alike[like] = alike
        self._events.append(TopicDeleted(topic))

    def _topic_by_id(self, topic_id: bytes) -> TopicImage:
        try:
            return self.topics_by_id[topic_id]
        except KeyError:
            raise MetadataError(f"a record names topic id {uuid_to_text(topic_id)}, which no topic has") from None

    def _partition(self, record: PartitionRecord) -> None:
        topic = self._topic_by_id(record.topic_id)
        partitions = self.partitions_of(topic)
        previous = partitions.get(record.partition_id)
        other = next(iter(partitions.values()), None)  # most partitions of a topic are alike, and share what is
        replicas = tuple(record.replicas)
        directories = _one_a_replica(tuple(record.directories), len(replicas))
        if other is not None:
            replicas = other.replicas if other.replicas == replicas else replicas
            directories = other.directories if other.directories == directories else directories
        isr = tuple(record.isr)
        partition = PartitionImage(
            replicas,
            replicas if isr == replicas else isr,
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            directories,
            tuple(record.adding_replicas),
            tuple(record.removing_replicas),
            record.leader_recovery_state,
            tuple(record.eligible_leader_replicas or ()),
            tuple(record.last_known_elr or ()),
        )
        partitions[record.partition_id] = partition
        self._events.append(PartitionChanged(topic, record.partition_id, partition, previous))

    def _partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self._topic_by_id(record.topic_id)
        partitions = self.partitions_of(topic)
        try:
            old = partitions[record.partition_id]
        except KeyError:
            raise MetadataError(f"a record changes {topic.name}-{record.partition_id}, which does not exist") from None
        elected = record.leader != _NO_LEADER_CHANGE
        recovery = record.leader_recovery_state
        replicas = _changed(record.replicas, old.replicas)
        directories = _changed(record.directories, old.directories)
        new = PartitionImage(
            replicas,
            _changed(record.isr, old.isr),
            record.leader if elected else old.leader,
            old.leader_epoch + elected,
            old.partition_epoch + 1,
            _one_a_replica(directories, len(replicas)),
            _changed(record.adding_replicas, old.adding_replicas),
            _changed(record.removing_replicas, old.removing_replicas),
            old.leader_recovery_state if recovery == _NO_RECOVERY_CHANGE else recovery,
            _changed(record.eligible_leader_replicas, old.elr),
            _changed(record.last_known_elr, old.last_known_elr),
        )
        partitions[record.partition_id] = new
        self._events.append(PartitionChanged(topic, record.partition_id, new, old))

    def _clear_elr(self, record: ClearElrRecord) -> None:
        """Empties the eligible leader replicas of one topic, or of all topics if the name is empty."""
        names = [record.topic_name] if record.topic_name else list(self.topics)
        for name in names:
            topic = self.topics.get(name)
            if topic is None:
                raise MetadataError(f"a record clears the eligible leaders of {name}, which does not exist")
            partitions = self.partitions_of(topic)
            for index, old in list(partitions.items()):
                if old.elr or old.last_known_elr:
                    new = old._replace(elr=(), last_known_elr=())
                    partitions[index] = new
                    self._events.append(PartitionChanged(topic, index, new, old))

    def _config(self, record: ConfigRecord) -> None:
        resource = record.resource_type, record.resource_name
        configs = dict(self.configs.get(resource, _EMPTY))
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value
        if configs:
            self.configs[resource] = configs
        else:
            self.configs.pop(resource, None)
        if resource not in self._changed_resources:  # one event for all settings that an operation changes
            self._changed_resources.add(resource)
            self._events.append(ConfigChanged(*resource))

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self._set_broker(
            BrokerImage(
                record.broker_id,
                record.broker_epoch,
                record.incarnation_id,
                {e.name: Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points},
                record.rack,
                record.fenced,
                record.in_controlled_shutdown,
                tuple(record.log_dirs),
                tuple(record.cordoned_log_dirs or ()),
                {f.name: (f.min_supported_version, f.max_supported_version) for f in record.features},
            )
        )

    def _broker_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        """Changes a registration. In the field `fenced`, 1 fences the broker and -1 unfences it."""
        old = self._broker(record.broker_id, record.broker_epoch)
        log_dirs = tuple(record.log_dirs)
        self._set_broker(
            old._replace(
                fenced=record.fenced == 1 if record.fenced else old.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown == 1 or old.in_controlled_shutdown,
                log_dirs=log_dirs or old.log_dirs,
                cordoned_log_dirs=_changed(record.cordoned_log_dirs, old.cordoned_log_dirs),
            )
        )

    def _fence_broker(self, record: Any) -> None:
        self._set_broker(self._broker(record.id, record.epoch)._replace(fenced=True))

    def _unfence_broker(self, record: Any) -> None:
        self._set_broker(self._broker(record.id, record.epoch)._replace(fenced=False))

    def _unregister_broker(self, record: Any) -> None:
        del self.brokers[self._broker(record.broker_id, record.broker_epoch).broker_id]
        self._events.append(BrokerChanged(record.broker_id))

    def _broker(self, broker_id: int, epoch: int) -> BrokerImage:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise MetadataError(f"a record names broker {broker_id} with epoch {epoch}, which is not registered")
        return broker

    def _set_broker(self, broker: BrokerImage) -> None:
        self.brokers[broker.broker_id] = broker
        self._events.append(BrokerChanged(broker.broker_id))

    def _feature_level(self, record: FeatureLevelRecord) -> None:
        if record.feature_level:
            self.features[record.name] = record.feature_level
        else:
            self.features.pop(record.name, None)

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def _client_quota(self, record: ClientQuotaRecord) -> None:
        entity = [(part.entity_type, part.entity_name or "") for part in record.entity]
        key = ("quota", tuple(sorted(entity) if len(entity) > 1 else entity), record.key)
        if record.remove:
            self.kept.pop(key, None)
        else:
            self.kept[key] = record
        last = self._events[-1] if self._events else None
        if type(last) is QuotasChanged and len(last.records) < QUOTAS_AN_EVENT:
            last.records.append(record)
        else:
            self._events.append(QuotasChanged([record]))

    def _access_rule(self, record: AccessControlEntryRecord) -> None:
        key = "acl", record.id
        previous: Any = self.kept.get(key)
        self.kept[key] = record
        self._rule_changed(previous, record)

    def _remove_access_rule(self, record: RemoveAccessControlEntryRecord) -> None:
        previous: Any = self.kept.pop(("acl", record.id), None)
        if previous is not None:
            self._rule_changed(previous, None)

    def _rule_changed(self, removed: AccessControlEntryRecord | None, added: AccessControlEntryRecord | None) -> None:
        last = self._events[-1] if self._events else None
        if type(last) is AccessRulesChanged:  # one event for all that an operation changes
            last.changes.append((removed, added))
        else:
            self._events.append(AccessRulesChanged([(removed, added)]))

    def _nothing(self, record: WireStruct) -> None:
        """Ignores a record that does not concern the image but the reader of the log, or nobody."""


def _one_a_replica(directories: tuple[bytes, ...], replicas: int) -> tuple[bytes, ...]:
    """Returns one directory for each replica. Records of older metadata versions name none, which gives MIGRATING."""
    return directories if len(directories) == replicas else (MIGRATING,) * replicas


def _changed(new: list[Any] | None, old: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the new value of a field in a change record, or the old one if that is None."""
    return old if new is None else tuple(new)


def _keep(kind: str, *identity: str) -> Callable[[MetadataImage, Any], None]:
    def keep(image: MetadataImage, record: WireStruct) -> None:
        image.kept[kind, *(getattr(record, name) for name in identity)] = record

    return keep


def _forget(kind: str, *identity: str) -> Callable[[MetadataImage, Any], None]:
    def forget(image: MetadataImage, record: WireStruct) -> None:
        image.kept.pop((kind, *(getattr(record, name) for name in identity)), None)

    return forget


_APPLY: Final[dict[str, Callable[[MetadataImage, Any], None]]] = {
    "RegisterBrokerRecord": MetadataImage._register_broker,
    "UnregisterBrokerRecord": MetadataImage._unregister_broker,
    "TopicRecord": MetadataImage._topic,
    "PartitionRecord": MetadataImage._partition,
    "ConfigRecord": MetadataImage._config,
    "PartitionChangeRecord": MetadataImage._partition_change,
    "FenceBrokerRecord": MetadataImage._fence_broker,
    "UnfenceBrokerRecord": MetadataImage._unfence_broker,
    "RemoveTopicRecord": MetadataImage._remove_topic,
    "FeatureLevelRecord": MetadataImage._feature_level,
    "ProducerIdsRecord": MetadataImage._producer_ids,
    "BrokerRegistrationChangeRecord": MetadataImage._broker_registration_change,
    "ClearElrRecord": MetadataImage._clear_elr,
    # Kept whole
    "AccessControlEntryRecord": MetadataImage._access_rule,
    "RemoveAccessControlEntryRecord": MetadataImage._remove_access_rule,
    "DelegationTokenRecord": _keep("token", "token_id"),
    "RemoveDelegationTokenRecord": _forget("token", "token_id"),
    "UserScramCredentialRecord": _keep("scram", "name", "mechanism"),
    "RemoveUserScramCredentialRecord": _forget("scram", "name", "mechanism"),
    "ClientQuotaRecord": MetadataImage._client_quota,
    "RegisterControllerRecord": _keep("controller", "controller_id"),
    "UnregisterControllerRecord": _forget("controller", "controller_id"),
    # Nothing to keep
    "NoOpRecord": MetadataImage._nothing,  # an idle quorum writes it as a sign of life
    "ZkMigrationStateRecord": MetadataImage._nothing,  # migration from ZooKeeper ended with Kafka 3.9
    "BeginTransactionRecord": MetadataImage._nothing,  # these three enclose other records: metadata_log.py acts on them
    "EndTransactionRecord": MetadataImage._nothing,
    "AbortTransactionRecord": MetadataImage._nothing,
}
