"""Kafka's own reading of a metadata log, and our image in the same words."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ottla.server.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from ottla.wire.primitives import uuid_to_text
from tests.java_oracle import JavaOracle

SOURCE = Path(__file__).parent / "KafkaMetadataOracle.java"


class MetadataOracle(JavaOracle):
    """`read` asks what a log, or a snapshot and the log behind it, come to."""

    def __init__(self) -> None:
        super().__init__(SOURCE)

    def read(self, *files: bytes) -> tuple[list[str], set[str], int]:
        """(control records in order, the image in lines, epoch of the last batch)."""
        with tempfile.TemporaryDirectory(prefix="ottla-oracle-") as directory:
            paths = [Path(directory, str(at)) for at in range(len(files))]
            for path, data in zip(paths, files, strict=True):
                path.write_bytes(data)
            lines = self.run(*map(str, paths)).splitlines()
        return (
            [line for line in lines if line.startswith("control ")],
            {line for line in lines if not line.startswith(("control ", "epoch "))},
            int(lines[-1].removeprefix("epoch ")),
        )


def lines_of(image: MetadataImage) -> set[str]:
    """Returns what the oracle prints for the same image."""
    lines = {f"feature {name} {level}" for name, level in image.features.items()}
    lines |= {_broker(broker) for broker in image.brokers.values()}
    lines |= {
        _partition(topic, index, partition) for topic in image.topics.values() for index, partition in topic.partitions.items()
    }
    lines |= {
        f"config {kind} {name or '-'} {key} {value}"
        for (kind, name), configs in image.configs.items()
        for key, value in configs.items()
    }
    lines |= {_kept(key) for key in image.kept if key[0] != "controller"}
    return lines | {f"producer ids {image.next_producer_id}"}


def _broker(broker: BrokerImage) -> str:
    endpoints = ",".join("/".join(map(str, endpoint)) for _, endpoint in sorted(broker.endpoints.items()))
    return (
        f"broker {broker.broker_id} {broker.epoch} {uuid_to_text(broker.incarnation_id)} {_bool(broker.fenced)} "
        f"{_bool(broker.in_controlled_shutdown)} {broker.rack or '-'} {_ids(broker.log_dirs)} {endpoints}"
    )


def _partition(topic: TopicImage, index: int, partition: PartitionImage) -> str:
    replicas, isr, leader, leader_epoch, partition_epoch, directories, adding, removing, recovery, elr, last_elr = partition
    return (
        f"partition {topic.name} {uuid_to_text(topic.topic_id)} {index} {_ids(replicas)} {_ids(isr)} {leader} {leader_epoch} "
        f"{partition_epoch} {_ids(directories)} {_ids(adding)} {_ids(removing)} {recovery} {_ids(elr)} {_ids(last_elr)}"
    )


def _kept(key: tuple[Any, ...]) -> str:
    match key:
        case ("scram", name, mechanism):
            return f"scram {name} {mechanism}"
        case ("acl", rule):
            return f"acl {uuid_to_text(rule)}"
        case ("quota", entity, name):
            return f"quota {name} [{', '.join(sorted(kind for kind, _ in entity))}]"
        case _:
            raise AssertionError(key)


def _ids(values: Iterable[int | bytes]) -> str:
    return ",".join(str(value) if isinstance(value, int) else uuid_to_text(value) for value in values) or "-"


def _bool(value: bool) -> str:
    return "true" if value else "false"
