"""One side of a comparison: a broker, and the tools pointed at it."""

from __future__ import annotations

import difflib
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from compat_tests.brokers import Address
from compat_tests.java_client import ANSWER_TIMEOUT_S, Java
from compat_tests.reference import jvm
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.tools_diff.differences import alike
from compat_tests.tools_diff.masks import masked
from compat_tests.tools_diff.script import File, Hold, Run, Script, Step
from compat_tests.tools_diff.streams_member import StreamsMember

T = TypeVar("T")

TOOLS = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "client-compatibility-test": "org.apache.kafka.tools.ClientCompatibilityTest",
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
    "replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
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
NOT_COMPARED = {
    "org.apache.kafka.tools.ConnectPluginPath": "it looks for Kafka Connect's plug-ins in directories, and connects to nothing",
    "org.apache.kafka.tools.JmxTool": "it reads the MBeans of a JVM, and ottla has none: /metrics has what they say",
    "org.apache.kafka.tools.LogCompactionTester": "a soak of drawn records; test_compaction.py compares compaction byte by byte",
    "org.apache.kafka.tools.OAuthCompatibilityTool": "it asks an OAuth provider for tokens and checks them, without a broker",
    "org.apache.kafka.tools.TransactionalMessageCopier": "its copies are compared, through kills: test_apache_transactions.py",
}
"""The other main classes of kafka-tools, and why no script calls them."""
LOCAL = frozenset({"dump-log", "storage"})  # they read files, and take no address
UNTIL_S = 30.0


class Site:
    """A broker with its JVM of tools. `start` makes one, now and whenever a tool has hung: then its JVM is gone."""

    def __init__(self, broker: BrokerProcess, start: Callable[[], Java], directory: Path) -> None:
        self.broker, self.directory = broker, directory
        self._start, self.java = start, start()
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
        said: list[str] = []
        try:
            for step in script.steps:
                said.extend(self._take(step, own, places))
        except AssertionError as failure:  # of a tool or a member that does not answer: what came before tells why
            said += [f"FAILED in {step}", str(failure)]
            with suppress(subprocess.TimeoutExpired):  # it lives on where a member failed
                self.java.process.wait(1)
        finally:
            if self.java.process.poll() is not None:
                self.held, self.java = [], self._start()
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
        yield f"$ {step.line}"

        def said_so() -> bool:
            done.update(
                alone(tool, arguments, step.ends_at)
                if step.alone
                else self.java.call("tool", **{"class": TOOLS[tool]}, arguments=arguments, stdin=step.stdin)
            )
            return re.search(step.until, done["stdout"]) is not None

        deadline = time.monotonic() + UNTIL_S
        while not said_so():
            if time.monotonic() > deadline:
                yield f"  never said {step.until}"
                break
            time.sleep(0.05)  # between two questions: another process's state has no event to wait for
        for stream in ("stdout", "stderr"):
            text = done[stream]
            for place, value in places.items():
                text = text.replace(value, place)
            lines = alike(self.broker.kind, masked(text, step.hide)).splitlines()
            yield from (f"  {stream}: {line}".rstrip() for line in (sorted(lines) if step.unordered else lines))
        yield f"  exit {done['exit']}" + ("" if done["exit"] == step.code else f", not {step.code}")


def alone(tool: str, arguments: list[str], ends_at: str = "") -> dict[str, Any]:
    """A tool in a process of its own; what Tools.java would answer."""
    level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    command = [*jvm.java("kafka-tools", level), TOOLS[tool], *arguments]
    if ends_at:
        return _ended(command, ends_at)
    done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_TIMEOUT_S, check=False)
    return {"exit": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


def _ended(command: list[str], ends_at: str) -> dict[str, Any]:
    """A tool that is ended when it has printed a line with this text, or after ANSWER_TIMEOUT_S."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        deadline = threading.Timer(ANSWER_TIMEOUT_S, process.kill)
        deadline.start()
        try:
            lines = []
            for line in process.stdout:
                lines.append(line)
                if ends_at in line:
                    break
            process.terminate()
            _, stderr = process.communicate()
        finally:
            deadline.cancel()
    return {"exit": process.returncode, "stdout": "".join(lines), "stderr": stderr}


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
