"""A producer sends under faults: what its application is told, and what the log has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from compat_tests.behaviours.cell import SECONDS, TOPIC, Cell, after, counted, named, outcome
from compat_tests.behaviours.driver import Answer
from ottla.server.testkit.python.handles import Fault

WARM = "warm"
Given = dict[str, Any]


def produce(**given: Any) -> Given:
    """A fault for Produce requests to the topic."""
    return {"api": "Produce", "topic": TOPIC, **given}


def told(answer: Answer) -> str:
    """Returns what the application was told of the records that it sent."""
    if words := outcome(answer, ""):
        return words
    errors = list(dict.fromkeys(named(one) for one in answer.result or () if "error" in one))
    return " and ".join(errors) or "delivered"


@dataclass(frozen=True)
class Produces:
    """Sends a record; with `warm` after another one that met no fault, so that all that is needed is known by then."""

    faults: tuple[Given, ...]
    settings: Given = field(default_factory=dict)
    warm: bool = True
    counts: str = "Produce"
    """The requests that the cell counts; empty for none."""
    again: bool = False
    """True if another record follows, with the faults over."""

    def __call__(self, cell: Cell) -> str:
        if self.warm:
            ready = cell.producer(**self.settings)
            if words := outcome(ready, ""):
                return words
            cell.send(WARM)
        requests = cell.count(api=self.counts) if self.counts else None
        faults = [cell.fault(**given) for given in self.faults]
        if not self.warm:
            ready = cell.producer(**self.settings)
            if words := outcome(ready, ""):
                return words
        sent = cell.send("one")
        return self._words(cell, sent, faults, requests)

    def _words(self, cell: Cell, sent: Answer, faults: list[Fault], requests: Fault | None) -> str:
        if not any(fault.hits for fault in faults):
            return "does not ask"
        number = requests.hits if requests is not None else 0
        then = ""
        if self.again and not sent.hangs:
            cell.remove_faults()
            then = f"; the next: {told(cell.send('two'))}"
        cell.close()
        cell.remove_faults()
        log = cell.log()
        words = f"{told(sent)}{'' if sent.hangs else after(sent.seconds)}, {counted(log.count('one'), 'record')}"
        if self.counts:
            words += f", {counted(number, 'request')}"
        return words + then


def first_choices(cell: Cell) -> str:
    """Says what a producer asks of a broker by itself."""
    acks = {words: cell.count(api="Produce", where={"acks": number}) for number, words in ((-1, "all"), (1, "1"), (0, "0"))}
    identity = cell.count(api="InitProducerId")
    cell.producer()
    cell.send("one")
    chosen = next((words for words, fault in acks.items() if fault.hits), "none")
    return f"acks={chosen}, {'idempotent' if identity.hits else 'not idempotent'}"


def broker_dies(cell: Cell) -> str:
    """Has the broker end and start again while a request is in its hands."""
    cell.producer(idempotent=True)
    cell.send(WARM)
    held = cell.fault(hold=True, **produce())
    number = cell.driver.begin("send", of=cell.of("p"), topic=TOPIC, values=["one"])
    held.wait(1, SECONDS)
    cell.broker.restart("kill")
    sent = cell.driver.wait(number, SECONDS)
    cell.close()
    return f"{told(sent)}{'' if sent.hangs else after(sent.seconds)}, {counted(cell.log().count('one'), 'record')}"
