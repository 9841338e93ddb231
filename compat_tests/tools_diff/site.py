"""One side of a comparison: a broker, and the tools pointed at it."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from reference_kafka import BrokerProcess

from compat_tests.brokers import Address
from compat_tests.java_client import Java
from compat_tests.tools_diff.masks import masked
from compat_tests.tools_diff.script import File, Hold, Run, Script, Step
from compat_tests.tools_diff.streams_member import StreamsMember
from compat_tests.waiting import wait_for

T = TypeVar("T")

TOOLS = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "share-consumer-perf-test": "org.apache.kafka.tools.ShareConsumerPerformance",
    "share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "storage": "kafka.tools.StorageTool",
    "streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
}
LOCAL = frozenset({"dump-log", "storage"})  # they read files, and take no address
UNTIL_S = 30.0


class Site:
    """A broker with its JVM of tools."""

    def __init__(self, broker: BrokerProcess, java: Java, directory: Path) -> None:
        self.broker, self.java, self.directory = broker, java, directory
        self.held: list[str] = []
        self.streams: dict[str, StreamsMember] = {}

    def transcript(self, script: Script) -> str:
        """All that the script's tools said, masked."""
        own = self.directory / script.name
        own.mkdir()
        places = {
            "{bootstrap}": self.broker.bootstrap,
            "{dir}": str(own),
            "{data}": str(self.broker.data_dir),
            "{properties}": str(self.broker.properties),
        }
        try:
            said = [line for step in script.steps for line in self._take(step, own, places)]
        finally:
            for member in list(self.held):
                self._release(member)
        return "".join(f"{line}\n" for line in said)

    def _take(self, step: Step, own: Path, places: dict[str, str]) -> Iterator[str]:
        if isinstance(step, Run):
            yield from self._run(step, places)
        elif isinstance(step, File):
            (own / step.name).write_text(filled(step.text, places))
        elif isinstance(step, Hold) and step.kind == "streams":
            address = Address(self.broker.kind, self.broker.port, 0, "")
            self.streams[step.member] = StreamsMember(address, step.settings["group.id"], "member-1", step.topics)
            self.held.append(step.member)
        elif isinstance(step, Hold):
            asked = {"member": step.member, "kind": step.kind, "topics": list(step.topics), "settings": step.settings}
            self.java.call("hold", bootstrap=self.broker.bootstrap, **asked)
            self.held.append(step.member)
        else:
            self._release(step.member)

    def _release(self, member: str) -> None:
        self.held.remove(member)
        if member in self.streams:
            self.streams.pop(member).leave()
            return
        error = self.java.call("release", member=member)
        assert error is None, f"{member}: {error}"

    def _run(self, step: Run, places: dict[str, str]) -> Iterator[str]:
        tool, *arguments = (filled(word, places) for word in shlex.split(step.line))
        if tool not in LOCAL and "{bootstrap}" not in step.line:
            arguments = ["--bootstrap-server", self.broker.bootstrap, *arguments]
        done: dict[str, Any] = {}

        def said_so() -> bool:
            done.update(self.java.call("tool", **{"class": TOOLS[tool]}, arguments=arguments, stdin=step.stdin))
            return re.search(step.until, done["stdout"]) is not None

        yield f"$ {step.line}"
        try:
            wait_for(said_so, f"{step.until} of {step.line}", UNTIL_S)
        except AssertionError as late:
            yield str(late)
        for stream in ("stdout", "stderr"):
            text = done[stream]
            for place, value in places.items():
                text = text.replace(value, place)
            lines = masked(text, step.hide).splitlines()
            yield from (f"  {stream}: {line}".rstrip() for line in (sorted(lines) if step.unordered else lines))
        yield f"  exit {done['exit']}" + ("" if done["exit"] == step.code else f", not {step.code}")


def filled(text: str, places: dict[str, str]) -> str:
    for place, value in places.items():
        text = text.replace(place, value)
    return text


def on_both(sites: tuple[Site, Site], what: Callable[[Site], T]) -> tuple[T, T]:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(what, sites)
    return first, second


def difference(ours: str, kafkas: str) -> str:
    return "".join(difflib.unified_diff(kafkas.splitlines(True), ours.splitlines(True), "Apache Kafka", "ottla", n=6))


@contextmanager
def started(broker: BrokerProcess) -> Iterator[BrokerProcess]:
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
