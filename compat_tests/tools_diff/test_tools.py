"""Each script of the tables: what ottla makes the tools say, and what Apache Kafka makes them say."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from compat_tests.brokers import CLASSES
from compat_tests.java_client import Java, running
from compat_tests.reference import maven
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.tools_diff import scripts
from compat_tests.tools_diff.differences import DIFFERENCES, USED, Difference
from compat_tests.tools_diff.masks import MASKS, Mask, in_order
from compat_tests.tools_diff.script import Script
from compat_tests.tools_diff.site import NOT_COMPARED, TOOLS, Site, difference, on_both, started

PAIR = os.environ.get("OTTLA_TOOLS_PAIR", "ottla,kafka").split(",")
RAN: set[str] = set()
RUN = (1_795_287_262.0, 1_795_287_263.0)
"""The run, from begin to end, of the masks' examples: the evening of 2026-11-21."""
MAIN, WORDS = b"\x00\x04main", b"([Ljava/lang/String;)V"
"""The name and the type of a main method, as a class file has them."""


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


def test_every_main_class_of_kafka_tools_is_a_tool_or_says_why_not() -> None:
    (jar,) = maven.jar_dir("kafka-tools").glob("kafka-tools-[0-9]*.jar")
    with zipfile.ZipFile(jar) as archive:
        classes = {name: archive.read(name) for name in archive.namelist() if name.endswith(".class")}
    found = {name.removesuffix(".class").replace("/", ".") for name, code in classes.items() if MAIN in code and WORDS in code}
    tools = {name for name in TOOLS.values() if name.startswith("org.apache.kafka.tools.")}
    assert found == tools | NOT_COMPARED.keys()
    assert not tools & NOT_COMPARED.keys()


@pytest.mark.parametrize("row", DIFFERENCES, ids=lambda row: row.name)
def test_both_wordings_have_the_same_values(row: Difference) -> None:
    assert re.compile(row.kafkas).groupindex.keys() == re.compile(row.ours).groupindex.keys()


@pytest.mark.parametrize("mask", scripts.all_masks(), ids=lambda mask: mask.why)
def test_a_mask_takes_of_its_example_what_it_says_and_no_more(mask: Mask) -> None:
    assert mask.apply(mask.example, RUN) == mask.masked
    assert mask.masked != mask.example
    assert mask.apply("nothing of that kind (1, 2)", RUN) in ("nothing of that kind (1, 2)", "")


@pytest.mark.parametrize("mask", [mask for mask in MASKS if mask.moment], ids=lambda mask: mask.why)
@pytest.mark.parametrize("late_s", [-60, 60])
def test_a_moment_of_another_time_than_the_run_is_compared(mask: Mask, late_s: int) -> None:
    assert mask.apply(mask.example, (RUN[0] + late_s, RUN[1] + late_s)) == mask.example


def test_a_mask_that_takes_lines_leaves_others() -> None:
    """One that takes what it does not know is of a single call, and leaves the lines with a certain name."""
    whole = [mask for mask in scripts.all_masks() if not mask.apply("some line\n", RUN)]
    assert all(mask.pattern.startswith("(?m)^(?!.*") and mask.masked for mask in whole), whole
    assert not any(mask in MASKS for mask in whole)


def test_sets_are_put_in_order() -> None:
    both = [re.sub("(?<=: ).*", in_order, text) for text in ("of: [b, a]", "of: a, b")]
    assert both == ["of: a b"] * 2
