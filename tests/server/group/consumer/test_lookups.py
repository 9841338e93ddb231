"""These tests cover lookups of expressions: they run after the request, step by step, and one at a time for each group."""

from __future__ import annotations

from ottla.server.group.consumer.lookups import Matches, RegexLookups
from tests.server.coordination.memory import slow
from tests.server.group.consumer.beats import Beating


def test_a_lookup_begins_after_the_request_and_reports_the_version_it_began_with() -> None:
    driver = Beating()
    found: list[tuple[str, Matches, int]] = []
    lookups = RegexLookups(driver.clock, driver.broker.metadata, lambda *what: found.append(what))
    version = driver.broker.metadata.highest_offset
    assert not lookups.is_running("g")
    lookups.start("g", ["t", "[", "none"])
    assert lookups.is_running("g")
    assert not lookups.is_running("other")
    assert found == []
    driver.broker.metadata.highest_offset += 1
    driver.clock.advance(0)
    assert found == [("g", {"t": frozenset({"t"}), "[": None, "none": frozenset()}, version)]
    assert not lookups.is_running("g")


def test_a_long_lookup_lets_others_run_between_its_steps() -> None:
    driver = Beating()
    for number in range(20):
        driver.broker.metadata.topics[f"many-{number}"] = None
    found: list[Matches] = []
    lookups = RegexLookups(driver.clock, driver.broker.metadata, lambda _, matches, __: found.append(matches))
    lookups.start("g", ["many-.*"])
    armed = driver.clock.armed
    with slow(driver.clock):
        driver.clock.advance(0)
    assert len(found[0]["many-.*"] or ()) == 20
    assert driver.clock.armed - armed >= 10, "so many turns"
