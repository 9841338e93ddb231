"""Each script of the tables: what ottla makes the tools say, and what Apache Kafka makes them say."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from compat_tests.brokers import CLASSES
from compat_tests.java_client import Java, running
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.tools_diff import scripts
from compat_tests.tools_diff.differences import DIFFERENCES, USED, Difference
from compat_tests.tools_diff.masks import MASKS, Mask
from compat_tests.tools_diff.script import Script
from compat_tests.tools_diff.site import TOOLS, Site, difference, on_both, started

PAIR = os.environ.get("OTTLA_TOOLS_PAIR", "ottla,kafka").split(",")
RAN: set[str] = set()


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Site]]:
    with ExitStack() as stack:
        found = []
        for number, kind in enumerate(PAIR):
            directory = tmp_path_factory.mktemp(f"{kind}-{number}")
            broker: BrokerProcess = CLASSES[kind](directory / "broker", scripts.SETTINGS)
            stack.enter_context(started(broker))
            found.append(Site(broker, partial(start_java, stack, directory / "java"), directory))
        first, second = found
        yield first, second


def start_java(stack: ExitStack, directory: Path) -> Java:
    directory.mkdir(exist_ok=True)
    return stack.enter_context(running(directory, "Tools", "kafka-tools", log_level="error"))


@pytest.mark.parametrize("script", scripts.ALL, ids=lambda script: script.name)
def test_both_say_the_same(sites: tuple[Site, Site], script: Script) -> None:
    RAN.add(script.name)
    ours, kafkas = on_both(sites, lambda site: site.transcript(script))
    odd = re.findall(r"(?m)^(?:FAILED|  never said) .*|^  exit .*, not .*", kafkas)
    assert not odd, f"Kafka itself does not do what the script expects: {odd}\n{kafkas}"
    assert ours == kafkas, f"\n{difference(ours, kafkas)}"


def test_every_difference_is_there() -> None:
    """The last of this file that needs brokers. A run of some scripts only says nothing of the rest."""
    if {script.name for script in scripts.ALL} == RAN and set(PAIR) == {"ottla", "kafka"}:
        assert USED.missing() == []


def test_every_tool_is_in_a_script() -> None:
    called = {step.line.split()[0] for script in scripts.ALL for step in script.steps if hasattr(step, "line")}
    assert called == set(TOOLS)


@pytest.mark.parametrize("row", DIFFERENCES, ids=lambda row: row.name)
def test_both_wordings_have_the_same_values(row: Difference) -> None:
    assert re.compile(row.kafkas).groupindex.keys() == re.compile(row.ours).groupindex.keys()


@pytest.mark.parametrize("mask", MASKS, ids=lambda mask: mask.why)
def test_a_mask_covers_its_example(mask: Mask) -> None:
    assert re.search(mask.pattern, mask.example)
