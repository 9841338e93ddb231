"""Plays sessions on both brokers in lock-step, compares every answer, and shrinks what differs to a short script.

After every step the answers of both, masked by same.normalise, must be equal; the session ends with its first difference, for
what follows would differ because of it. `shrink` is delta debugging over the session's steps under fresh names: parts are left
out as long as a difference of the same signature (step and field) remains. What is left goes into kept/, as a test from then on.
"""

from __future__ import annotations

import json
import re
import select
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from compat_tests.brokers import KINDS, Address
from compat_tests.seen import LEDGER
from compat_tests.wire import SILENT, Wire
from compat_tests.wire_diff.random_walk import group_steps, log_steps, member_steps, share_steps, topic_steps, txn_steps
from compat_tests.wire_diff.random_walk.session import Session
from compat_tests.wire_diff.random_walk.steps import SESSION_STEPS, Script, play, session_script
from compat_tests.wire_diff.same import differences, normalise

FAMILIES: Final = (topic_steps, log_steps, group_steps, member_steps, share_steps, txn_steps)  # which register themselves
KEPT: Final = Path(__file__).with_name("kept")
GRACE_S: Final = 0.02  # for the way of an answer that the coordinator gave before the one we have seen
REALLY_SILENT_S: Final = 10.0  # waited only if ottla has answered


@dataclass(frozen=True)
class Found:
    """A difference: at which step, of which name, and where the answers are unequal: (path, Kafka's, ottla's)."""

    at: int
    step: str
    unequal: list[tuple[str, Any, Any]]

    @property
    def signature(self) -> tuple[str, frozenset[str]]:
        return self.step, frozenset(re.sub(r"\[\d+\]", "", path) for path, _, _ in self.unequal)

    def __str__(self) -> str:
        lines = [f"  {path or 'answer'}: Kafka {theirs!r}, ottla {ours!r}" for path, theirs, ours in self.unequal[:8]]
        return f"step {self.at}, {self.step}\n" + "\n".join(lines)


class Pair:
    """Both brokers, warm. Every session has names of its own, so that sessions do not see each other."""

    def __init__(self, addresses: list[Address]) -> None:
        self.addresses = {address.kind: address for address in addresses}
        self.played = 0
        self.requests = 0
        self.by_step: Counter[str] = Counter()
        self.threads = ThreadPoolExecutor(len(KINDS))

    @contextmanager
    def sessions(self, name: str) -> Iterator[dict[str, Session]]:
        self.played += 1
        LEDGER.next_test()
        wires = {kind: Wire(address, f"{name}-{self.played}") for kind, address in self.addresses.items()}
        try:
            yield {kind: Session(wire) for kind, wire in wires.items()}
        finally:
            for wire in wires.values():
                wire.close()

    def both(self, sessions: dict[str, Session], what: Callable[[Session], Any]) -> dict[str, Any]:
        """Asks both at the same time, and returns what they answer, in a comparable form. A failure is an answer as well, and
        never equal to another's."""

        def one(kind: str) -> Any:
            try:
                answer = what(sessions[kind])
            except (ArithmeticError, AssertionError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
                return f"{kind}: {type(error).__name__}: {error}"
            return normalise(answer, sessions[kind].wire.labels)

        return dict(zip(KINDS, self.threads.map(one, KINDS), strict=True))

    def play(self, name: str, script: Script) -> Found | None:
        """The first difference of a session."""
        with self.sessions(name) as sessions:
            for at, (step, arguments) in enumerate(script):
                answers = self.both(sessions, lambda session: play(session, step, arguments))  # noqa: B023 - called at once
                unequal = differences(answers["kafka"], answers["ottla"]) or self.late_answers(sessions)
                if unequal:
                    return Found(at, step, unequal)
                LEDGER.held()
                if answers["kafka"] not in (None, member_steps.BUSY):
                    self.requests += 1
                    self.by_step[step] += 1
        return None

    def late_answers(self, sessions: dict[str, Session]) -> list[tuple[str, Any, Any]]:
        """Compare the answers that members have waited for. Kafka says which are due: its coordinator answers in the order of
        what it did, so those of before have left when it has described the group.
        """
        if not sessions["kafka"].waiting:
            return []
        self.both(sessions, lambda session: [play(session, "group_state", {"groups": ["g0"], "version": 5}) for _ in range(2)])
        due = ready(sessions["kafka"], GRACE_S)
        early = set(ready(sessions["ottla"], GRACE_S)) - set(due)
        due += [role for role in sorted(early) if ready(sessions["kafka"], REALLY_SILENT_S, role)]
        # All are received before any is compared: one may name ids of members that another brings.
        answers = self.both(sessions, lambda session: {role: received(session, role) for role in due})
        found = differences(answers["kafka"], answers["ottla"])
        return found + [(f".{role}", SILENT, "an answer") for role in sorted(early - set(due))]


def ready(session: Session, timeout_s: float, only: str | None = None) -> list[str]:
    """Members whose answer has come: as soon as there are any, or this one."""
    sockets = {waiting[0].socket: role for role, waiting in session.waiting.items() if only in (None, role)}
    poll = select.select(list(sockets), [], [], timeout_s)[0]
    return sorted(sockets[each] for each in poll)


def received(session: Session, role: str) -> Any:
    connection, api, version = session.waiting.pop(role)
    return member_steps.noted(session, role, connection.answer(api, version))


def shrink(script: Script, still: Callable[[Script], bool]) -> Script:
    """The script with everything left out that `still` is true without: halves, quarters, ... single steps (Zeller's ddmin)."""
    parts = 2
    while len(script) >= 2:
        size = max(len(script) // parts, 1)
        for start in range(0, len(script), size):
            rest = script[:start] + script[start + size :]
            if rest and still(rest):
                script, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(script))
    return script


@dataclass
class Figures:
    """Of a walk, as JSON for the report. `unexplained` are differences that came again when their session was played again."""

    seed: int
    requests: int = 0
    sessions: int = 0
    by_step: dict[str, int] = field(default_factory=dict)
    unexplained: list[str] = field(default_factory=list)
    once: list[str] = field(default_factory=list)
    """Seen, but not again."""

    def write(self, file: Path, ran: dict[str, str]) -> None:
        """`ran`: provenance.stamp() of the walk."""
        differences = len(self.unexplained) + len(self.once)
        file.write_text(json.dumps({"ran": ran, **asdict(self), "differences": differences}, indent=1) + "\n")


def walk(
    pair: Pair, seed: int, requests: int, most: int = 1000, keep: Path | None = None, say: Callable[[str], None] = print
) -> Figures:
    """Sessions until as many requests have been compared, or `most` differences found; these are shrunk, and go into `keep`."""
    figures = Figures(seed)
    seen: set[Any] = set()
    while pair.requests < requests and len(figures.unexplained) < most:
        name = f"walk-{seed}-{figures.sessions}"
        script = session_script(name, SESSION_STEPS)
        figures.sessions += 1
        if found := pair.play(name, script):
            requests_before, steps_before = pair.requests, pair.by_step.copy()
            signature = found.signature

            def still(part: Script) -> bool:
                again = pair.play(name, part)  # noqa: B023 - called at once
                return again is not None and again.signature == signature  # noqa: B023

            start = script[: found.at + 1]
            if signature in seen or not still(start):
                (figures.unexplained if signature in seen else figures.once).append(f"{name}: {found}")
                say(f"{'known' if signature in seen else 'ONCE'}: {name}: {found}")
            else:
                seen.add(signature)
                short = shrink(start, still)
                figures.unexplained.append(f"{name}: {found}\n{json.dumps(short)}")
                say(f"FOUND: {name}: {pair.play(name, short)}\n" + "\n".join(json.dumps(each) for each in short))
                if keep:
                    (keep / f"{name}.json").write_text(as_text(f"{found}", short))
            pair.requests, pair.by_step = requests_before, steps_before
        figures.requests, figures.by_step = pair.requests, dict(sorted(pair.by_step.items()))
    return figures


def as_text(why: str, script: Script) -> str:
    """A kept script: what it found, and a line per step."""
    lines = ",\n  ".join(json.dumps(each) for each in script)
    return f'{{\n "found": {json.dumps(why)},\n "steps": [\n  {lines}\n ]\n}}\n'


def kept_scripts() -> dict[str, Script]:
    return {file.stem: [tuple(each) for each in json.loads(file.read_text())["steps"]] for file in sorted(KEPT.glob("*.json"))}
