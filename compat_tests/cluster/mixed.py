"""A cluster of brokers of ottla and of Apache Kafka 4.4.0 under a controller of Kafka, and what tests ask of any such cluster:
who leads, who is in sync, and whether all replicas of a topic are the same files.
"""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster.networks import Networks
from compat_tests.cluster.nodes import CONTROLLER_ID, KafkaBroker, KafkaController, OttlaBroker, connect
from compat_tests.reference.kafka import HOST, BrokerProcess
from compat_tests.test_apache_tools import Tools
from compat_tests.waiting import TIMEOUT_S, wait_for
from ottla.wire.batch import iter_batches
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

if TYPE_CHECKING:
    from confluent_kafka.admin._metadata import PartitionMetadata

LETTERS: Final = {"o": "ottla", "k": "kafka"}
"""By which the clusters of scripts are named, as in `ook`."""
CLASSES: Final[Mapping[str, type[KafkaBroker | OttlaBroker]]] = {"kafka": KafkaBroker, "ottla": OttlaBroker}


def named_clusters(words: str) -> list[str]:
    """Returns the words that each name a cluster of three, a letter for each broker, as in `ook,kkk`. Raises
    ArgumentTypeError."""
    names = words.split(",")
    for name in names:
        if len(name) != 3 or set(name) - LETTERS.keys():
            raise ArgumentTypeError(f"a cluster is three letters, each o for ottla or k for Apache Kafka, and not {name!r}")
    return names


class Mixed:
    """One broker for each of `kinds`, whose ids count from 1 in that order. Nothing runs before `start`. With `networks`, each
    node is in its namespace, and the controller's is that of CONTROLLER_ID."""

    def __init__(
        self,
        directory: Path,
        kinds: Sequence[str],
        settings: dict[str, str] | None = None,
        networks: Networks | None = None,
        release: str = "",
        classes: Mapping[str, type[KafkaBroker | OttlaBroker]] = CLASSES,
    ) -> None:
        """`release`: the metadata.version whose features the cluster begins with, such as 3.9-IV0; as a rule the newest."""

        def host(node: int) -> str:
            return HOST if networks is None else networks.host(node)

        self._settings = settings
        self.controller = KafkaController(directory / "controller", settings, host=host(CONTROLLER_ID))
        if release:
            self.controller.format_options = ("--standalone", "--release-version", release)
        self.brokers: dict[int, BrokerProcess] = {
            node: classes[kind](directory / f"{kind}-{node}", node, self.controller.bootstrap, settings, host(node))
            for node, kind in enumerate(kinds, 1)
        }
        if networks is not None:
            for node, process in {CONTROLLER_ID: self.controller, **self.brokers}.items():
                process.inside = networks.inside(node)

    def start(self) -> None:
        for process in (self.controller, *self.brokers.values()):
            process.start()

    def stop(self) -> None:
        """Stops the brokers in the order of their ids, so that each leadership goes over in order, and then the controller."""
        for process in (*self.brokers.values(), self.controller):
            process.stop()

    def stop_in_order(self, node: int) -> None:
        """Stops a broker. Raises AssertionError if it did not end as it should."""
        broker = self.brokers[node]
        code = broker.stop()
        assert code == 0, f"broker {node} ended with {code}:\n{broker.log_tail()}"

    def take_over(self, node: int, kind: str) -> None:
        """Stops a broker in order, and starts one of another kind on its directory and its port. Raises AssertionError if it did
        not stop in order, BrokerFailed."""
        before = self.brokers[node]
        self.stop_in_order(node)
        after = CLASSES[kind](before.directory, node, self.controller.bootstrap, self._settings, before.host, before.port)
        after.inside = before.inside
        self.brokers[node] = after
        after.start()

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def create(self, topic: str, assignment: Sequence[list[int]], **config: str) -> None:
        """Creates a topic with these replicas of each partition, the first of which leads, and waits until all are in sync. In
        the names of settings, underscores stand for dots."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        new = NewTopic(topic, len(assignment), replica_assignment=list(assignment), config=settings)
        self.admin.create_topics([new])[topic].result(30)
        self.wait_for_isr(topic, assignment)
        self.wait_for_leaders(topic, [replicas[0] for replicas in assignment])

    def state(self, topic: str) -> list[tuple[int, list[int]]]:
        """Returns the leader and the in-sync replicas of each partition, or nothing if the topic is not known yet where it was
        asked for."""
        try:
            found = self.admin.list_topics(topic, 5).topics[topic].partitions
        except KafkaException:  # whoever was asked is gone
            return []
        return [(found[index].leader, sorted(found[index].isrs)) for index in sorted(found)]

    def wait_for_isr(self, topic: str, assignment: Iterable[Iterable[int]], timeout_s: float = TIMEOUT_S) -> None:
        wanted = [sorted(replicas) for replicas in assignment]
        wait_for(
            lambda: [isr for _, isr in self.state(topic)] == wanted,
            lambda: f"{topic}: {self.state(topic)}\n{self.tails()}",
            timeout_s,
        )

    def wait_for_leaders(self, topic: str, leaders: list[int]) -> None:
        wait_for(
            lambda: [leader for leader, _ in self.state(topic)] == leaders,
            lambda: f"{topic}: {self.state(topic)}\n{self.tails()}",
        )

    def elect_preferred(self, topic: str, partitions: int) -> None:
        """Gives each partition back to its first replica, all of which have to be in sync. Raises KafkaException."""
        self._elect([TopicPartition(topic, index) for index in range(partitions)])

    def elect_unclean(self, topic: str, leader: int) -> None:
        """Has the controllers elect whatever replica there is of a topic's one partition, and waits until it is this one."""

        def leads() -> bool:
            self.admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition(topic, 0)]).result(30)
            return self.state(topic)[0][0] == leader

        wait_for(leads, lambda: f"{topic}: {self.state(topic)}\n{self.tails()}")

    def _elect(self, partitions: list[TopicPartition] | None) -> None:
        """Gives partitions back to their first replicas, all of the cluster for None."""
        for error in self.admin.elect_leaders(ElectionType.PREFERRED, partitions).result(30).values():
            if error is not None and error.code() != KafkaError.ELECTION_NOT_NEEDED:
                raise KafkaException(error)

    def wait_until_whole(self) -> None:
        """Waits until all replicas of all topics are in sync, and the first ones lead."""

        def wrong() -> list[str]:
            try:
                self._elect(None)
            except KafkaException as error:
                return [str(error)]
            return self._not_in_sync(led_by_first=True)

        wait_for(lambda: not wrong(), lambda: f"{wrong()}\n{self.tails()}")

    def wait_until_led_without(self, node: int) -> None:
        """Waits until every partition of the cluster has a leader, and that is another broker."""

        def wrong() -> list[str]:
            return self._partitions(lambda each: each.leader in (-1, node))

        wait_for(lambda: not wrong(), lambda: f"{wrong()}\n{self.tails()}")

    def wait_for_full_isr(self, timeout_s: float = TIMEOUT_S) -> None:
        """Waits until all replicas of all topics are in sync, whoever leads."""
        wait_for(lambda: not self._not_in_sync(), lambda: f"{self._not_in_sync()}\n{self.tails()}", timeout_s)

    def _not_in_sync(self, *, led_by_first: bool = False) -> list[str]:
        return self._partitions(
            lambda each: len(each.isrs) != len(each.replicas) or (led_by_first and each.leader != each.replicas[0])
        )

    def _partitions(self, are: Callable[[PartitionMetadata], bool]) -> list[str]:
        """Returns what there is to say of the partitions of all topics that are so, or why nothing is known of them."""
        try:
            topics = self.admin.list_topics(timeout=5).topics
        except KafkaException as error:
            return [str(error)]
        return [
            f"{name}-{index}: {each.leader} leads, {each.isrs} of {each.replicas} are in sync"
            for name, topic in topics.items()
            for index, each in topic.partitions.items()
            if are(each)
        ]

    def call(self, node: int, request: Any, version: int) -> Any:
        """Returns what a broker answers, on a connection of its own."""
        connection = connect(self.brokers[node])
        try:
            return connection.call(request, version)
        finally:
            connection.close()

    def lead(self, topic: str, node: int) -> None:
        """Has a broker lead all partitions of a topic, of which it has replicas in sync: it becomes the first replica, and is
        elected."""
        found = self.admin.list_topics(topic, 10).topics[topic].partitions
        wanted = {index: [node, *(each for each in found[index].replicas if each != node)] for index in sorted(found)}
        asked = ReassignableTopic(topic, [ReassignablePartition(*each) for each in wanted.items()])
        answer = self.call(next(iter(self.brokers)), AlterPartitionReassignmentsRequest(30_000, True, [asked]), 1)
        refused = [each for response in answer.responses for each in response.partitions if each.error_code]
        assert not answer.error_code, answer.error_message
        assert not refused, f"{topic}: {refused}"
        self.elect_preferred(topic, len(wanted))
        self.wait_for_leaders(topic, [node] * len(wanted))

    def reassign(self, topic: str, assignment: Sequence[list[int]], directory: Path, timeout_s: float = TIMEOUT_S) -> None:
        """Has kafka-reassign-partitions give the topic these replicas, by a file in `directory`, and waits until nobody else has
        one, all are in sync, and the first ones lead."""
        moves = [{"topic": topic, "partition": at, "replicas": replicas} for at, replicas in enumerate(assignment)]
        plan = directory / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": moves}))
        Tools(self.bootstrap).run("reassign-partitions", "--execute", "--reassignment-json-file", str(plan))
        self.wait_for_isr(topic, assignment, timeout_s)
        self.wait_for_leaders(topic, [replicas[0] for replicas in assignment])

    def segments(self, node: int, topic: str, partition: int) -> dict[str, bytes]:
        """Returns the segments that a broker has of a partition, by name."""
        place = self.brokers[node].data_dir / f"{topic}-{partition}"
        return {path.name: path.read_bytes() for path in sorted(place.glob("*.log"))}

    def wait_until_equal(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        """Waits until the segments are the same bytes at all replicas, and there are some."""

        def different() -> list[str]:
            wrong = []
            for partition, (first, *others) in enumerate(assignment):
                try:
                    wanted = self.segments(first, topic, partition)
                    same = any(wanted.values()) and all(self.segments(each, topic, partition) == wanted for each in others)
                except FileNotFoundError:  # a segment was deleted or renamed meanwhile
                    same = False
                wrong += [f"{topic}-{partition} is not the same at {[first, *others]}"] * (not same)
            return wrong

        wait_for(lambda: not different(), lambda: f"{different()}\n{self.tails()}")

    def settled(self, node: int, topic: str, partition: int) -> dict[str, bytes | str]:
        """Returns what a broker that has stopped must have of a partition like all other replicas: segments, indexes of aborted
        transactions, snapshots of producers, and leader epochs.

        Left out are snapshots within a segment, which a broker makes where the log ended at an earlier stop of its own; and the
        epochs that begin at the log's end, because the brokers that stop first do not see who leads then.
        """
        place = self.brokers[node].data_dir / f"{topic}-{partition}"
        found: dict[str, bytes | str] = dict(self.segments(node, topic, partition))
        (*_, (last, _)) = iter_batches((place / max(found)).read_bytes())
        for path in place.glob("*.snapshot"):
            if path.with_suffix(".log").name in found or int(path.stem) == last.next_offset:
                found[path.name] = path.read_bytes()
        found |= {path.name: path.read_bytes() for path in place.glob("*.txnindex")}
        _, _, *epochs = (place / "leader-epoch-checkpoint").read_text().splitlines()
        found["epochs"] = " / ".join(line for line in epochs if int(line.split()[1]) < last.next_offset)
        return found

    def tails(self) -> str:
        return "\n".join(f"--- {node}, {broker.kind}\n{broker.log_tail(10)}" for node, broker in self.brokers.items())
