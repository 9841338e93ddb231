"""The report as blocks: what was tested, in which run, and which differences are known."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final

from compat_tests.forms import IN_FULL
from compat_tests.suites.runner import listed
from compat_tests.wire_diff import edge_cases
from ottla.wire.api import APIS
from scripts.compat_report.blocks import Block, Folded, Heading, Paragraph, Picture, Table, Text, row
from scripts.compat_report.differences import known_differences, what_is_masked
from scripts.compat_report.matrix import CAPABILITIES, Cell, cells
from scripts.compat_report.picture import draw
from scripts.compat_report.results import KINDS, PASSED, SKIPPED, Results, Test

TITLE: Final = "Is ottla Kafka?"
NOT_RUN: Final = Text("not run", "part")
OUTSIDE: Final = (
    ("authorizers other than StandardAuthorizer", "there is no JVM to load them in; a broker that names one does not start"),
    (
        "being a controller among others, and a cluster without Apache Kafka's controllers",
        "ottla is a broker among others, or a single node",
    ),
    ("tiered storage", "not implemented"),
)
LONG: Final = "`scripts/compat-report --run full`"
SHORT_FORMS: Final = (
    ("random requests in lock-step", "short walks with fixed seeds", "`scripts/random_walk.py`"),
    ("Kafka's own integration tests", "a sample chosen by a fixed seed", "`scripts/kafka_tests.py`"),
    ("deliberate breaks", "only a check that each of them still applies", "`scripts/breaks.py`"),
    ("Kafka Streams and Kafka Connect through kills", "the same tests with fewer lines and kills", LONG),
    ("transactions copied through kills", "some of the variants, with fewer messages", "`scripts/message_copies.py`"),
    ("kill -9 of the broker under load", "three rounds with a fixed seed", "`python -m scripts.kill_rounds --rounds N`"),
    ("a year of flights through a pipeline", "its first weeks", "`scripts/flights_pipeline.py`"),
)
"""The parts that CI shortens, because they take over 20 minutes together: the part, its form in CI, what runs its full form."""


def report(results: Results) -> list[Block]:
    found = cells(results.tests)
    return [
        Heading(TITLE, 1),
        Paragraph(
            "Everything here was run against ottla and, as the control, against Apache Kafka 4.4.0. Every figure comes from a "
            "run, and one that was kept from another run says so. `scripts/compat-report` generates this page; do not edit it. "
            f"{_ran(results)}"
        ),
        Picture(
            "compatibility.svg",
            draw(summary(results), found),
            "Tests passed, and the clients",
        ),
        Heading("In short"),
        _summary_table(results),
        *_second_tries(results),
        *_forms(results),
        *_clients(found),
        *_apis(results),
        *_kafka_tests(results),
        *_suites(results),
        *_breaks(results),
        *from_source(),
    ]


def from_source() -> list[Block]:
    """Returns the last sections, which no run changes."""
    return [*known_differences(), *what_is_masked(), *_outside()]


# In short


def counted(tests: Iterable[Test]) -> tuple[int, int]:
    outcomes = [test.outcome for test in tests]
    return outcomes.count(PASSED), len(outcomes)


class Line:
    """A part of the proof. `kafka` and `ottla` are (good, of), or None where it was not run. `place` says where all of it runs,
    `source` is a key of Results.origins, and `pending` is how many more wait to be compared."""

    def __init__(
        self,
        part: str,
        kafka: tuple[int, int] | None,
        ottla: tuple[int, int] | None,
        place: str,
        *,
        source: str = "suite",
        pending: int = 0,
    ) -> None:
        self.part, self.kafka, self.ottla, self.place, self.source, self.pending = part, kafka, ottla, place, source, pending


def _any(pair: tuple[int, int]) -> tuple[int, int] | None:
    return pair if pair[1] else None


def summary(results: Results) -> list[Line]:
    beside = [test for test in results.tests if not test.kind and test.file.startswith("wire_diff/")]
    own = [test for test in results.tests if not test.kind and not test.file.startswith("wire_diff/")]
    suites = {kind: _of_kafka_python(results, kind) for kind in KINDS}
    others = {
        kind: _any(counted(test for test in results.of(kind) if not test.file.startswith(("test_client_suites", "kafka_tests/"))))
        for kind in KINDS
    }
    lines = [
        Line("clients, tools and faults, black box over TCP", others["kafka"], others["ottla"], _place(results)),
        Line("kafka-python's own integration tests", suites["kafka"], suites["ottla"], "CI"),
        Line(
            "aiokafka's own integration tests",
            _of_aiokafka(results, "kafka"),
            _of_aiokafka(results, "ottla"),
            "`python -m compat_tests.suites.aiokafka`; not in CI, because its source distributions contain no tests",
            source="aiokafka",
        ),
        Line("the same bytes to both brokers, answers compared field by field", None, _any(counted(beside)), "CI"),
        Line("data directories, dumps and commands compared with Kafka's", None, _any(counted(own)), "CI"),
    ]
    answers = results.wire_diff
    if answers:
        missing = len(answers["missing"])
        of = answers["compared"] + missing
        rows = answers["rows"]
        passed = rows - len({line.partition(":")[0] for line in answers["rows_not_passed"]})
        lines.append(Line("successes and errors of each API and version, compared whole", None, (of - missing, of), "CI"))
        lines.append(Line("rows of docs/kafka-behaviour.md, each compared by a test", None, (passed, rows), "CI"))
    else:
        lines.append(Line("successes and errors of each API and version, compared whole", None, None, "CI"))
    walk = results.random_walk
    lines.append(
        Line(
            "random requests in lock-step without an unexplained difference",
            None,
            (walk["requests"] - len(walk.get("unexplained", ())), walk["requests"]) if walk else None,
            "`scripts/random_walk.py`; a short walk in CI",
            source="random_walk",
        )
    )
    for name, cases, command, source in (
        ("Kafka's own integration tests", results.kafka_tests, "`scripts/kafka_tests.py`; a sample in CI", "kafka_tests"),
        ("those of them that need several brokers", results.several, "`scripts/kafka_tests.py --several`; not in CI", "several"),
    ):
        pending = sum(each["kafka"] is None for each in cases or ())
        pairs = _of_kafkas(cases, "kafka"), _of_kafkas(cases, "ottla")
        lines.append(Line(name, *pairs, command, source=source, pending=pending))
    broken = results.breaks
    caught = (sum(each["caught"] for each in broken["breaks"]), len(broken["breaks"])) if broken else None
    lines.append(Line("deliberate breaks of ottla that the suite catches", None, caught, "`scripts/breaks.py`", source="breaks"))
    return lines


def _place(results: Results) -> str:
    """Returns where the cases of the suite run; what CI leaves out is named, with what runs it instead."""
    longer = sum(why == IN_FULL for why in results.left_out.values())
    return f"CI, except for {longer} with Apache Kafka: {LONG}" if longer else "CI"


def _of_kafka_python(results: Results, kind: str) -> tuple[int, int] | None:
    return _any(counted(test for test in results.of(kind) if test.plain == "test_kafka_python"))


def _of_aiokafka(results: Results, kind: str) -> tuple[int, int] | None:
    """Returns how many of the cases that Apache Kafka passes ottla passes, and how many these are."""
    cases = results.aiokafka["cases"].values() if results.aiokafka else ()
    wanted = [of for of in cases if of.get("kafka") == PASSED]
    return _any((sum(of.get(kind) == PASSED for of in wanted), len(wanted)))


def _of_kafkas(rows: list[dict[str, Any]] | None, kind: str) -> tuple[int, int] | None:
    """Returns (passed, of how many); the second counts what Kafka passes. Cases that were not run with this kind do not count as
    passed."""
    wanted = [each for each in rows or () if each["kafka"] == PASSED]
    return _any((sum(each[kind] == PASSED for each in wanted), len(wanted)))


def _score(pair: tuple[int, int] | None, *, absent: Text = NOT_RUN) -> Text:
    if pair is None:
        return absent
    return Text(f"{pair[0]:,} of {pair[1]:,}", "good" if pair[0] == pair[1] else "bad")


def _summary_table(results: Results) -> Table:
    both = Text("part of the comparison")
    rows = [
        row(
            line.part,
            _score(line.kafka, absent=NOT_RUN if not line.ottla else Text("–") if line.source == "breaks" else both),
            _with_pending(line),
            line.place,
            _origin(results, line),
        )
        for line in summary(results)
    ]
    return Table(("proof", "Apache Kafka (control)", "ottla", "where all of it runs", "date and commit"), rows)


def _with_pending(line: Line) -> Text:
    score = _score(line.ottla)
    return Text(f"{score.text}; not yet compared: {line.pending:,}", score.mark) if line.pending else score


def _origin(results: Results, line: Line) -> Text:
    """Returns when and from which commit a line was measured, marked if that was not in the suite's run."""
    if line.ottla is None:
        return Text("")
    suite, own = results.origins.get("suite"), results.origins.get(line.source, "")
    return Text(own) if own == suite else Text(f"another run: {own}", "part")


def _ran(results: Results) -> str:
    if "suite" not in results.origins:
        return "The suite itself was not run."
    skipped = sum(test.outcome == SKIPPED for test in results.tests)
    again = len(results.second_tries)
    tries = f", {again} run a second time" if again else ""
    return f"The suite ran on {results.origins['suite']}: {len(results.tests):,} cases, {skipped} skipped{tries}."


def _second_tries(results: Results) -> list[Block]:
    """Returns the tests that failed at first and were run again, alone, whose second verdict is the one that counts above."""
    if "suite" not in results.origins:
        return []
    if not results.second_tries:
        return [Paragraph("No test needed a second try.")]
    rows = [row(f"`{each.test.file}::{each.test.name}`", each.failure, each.test.outcome) for each in results.second_tries]
    return [
        Paragraph(
            "CI runs a dozen clients side by side on two cores, and gives up to four tests of a part that failed there a second "
            "try, alone. The figures above count the second verdict of these:"
        ),
        Table(("test", "how it failed at first", "alone"), rows),
    ]


def _forms(results: Results) -> list[Block]:
    """Returns which parts CI runs in a short form, and which tests it leaves out for that."""
    longer = sorted(test for test, why in results.left_out.items() if why == IN_FULL)
    rows = [row(*each) for each in SHORT_FORMS]
    if longer:
        rows.insert(0, row("tests of this suite with Apache Kafka", f"all but {len(longer)}, run with ottla only", LONG))
    title = f"{len(longer)} tests that run with Apache Kafka in the full form only"
    names = [Folded(title, [Table(("test",), [row(f"`{test}`") for test in longer])])]
    return [
        Paragraph("What takes longest has a short form in CI:"),
        Table(("part", "in CI", "what runs the full form"), rows),
        *(names if longer else []),
    ]


# Clients


def _clients(found: dict[str, dict[str, Cell]]) -> list[Block]:
    def text(cell: Cell) -> Text:
        if not cell.tests:
            return Text("–", "", cell.why) if cell.why else NOT_RUN
        passed, of = cell.counts("ottla")
        control = "{} of {}".format(*cell.counts("kafka"))
        hint = f"Apache Kafka {control}; " + ", ".join(cell.names)
        texts = {"good": f"✔ {of}", "bad": f"✘ {passed} of {of} (Kafka {control})", "part": f"{passed} of {of} (Kafka {control})"}
        return Text(texts[cell.mark], cell.mark, hint)

    table = Table(("client", *CAPABILITIES), [row(client, *map(text, of.values())) for client, of in found.items()])
    names = [
        row(client, name, "; ".join(f"`{each}`" for each in cell.names) or cell.why or "not run")
        for client, of in found.items()
        for name, cell in of.items()
    ]
    return [
        Heading("Clients"),
        Paragraph(
            "✔ n: n tests pass with ottla, and the same n with Apache Kafka. –: not tested with this client; "
            "the list below says why."
        ),
        table,
        Folded("The tests behind each cell", [Table(("client", "capability", "tests"), names)]),
    ]


# APIs


def _apis(results: Results) -> list[Block]:
    apis = edge_cases.all_served()
    newest = max(api.max_version for api in apis.values())
    no_success, no_error = set(edge_cases.excused(edge_cases.NO_SUCCESS)), set(edge_cases.excused(edge_cases.NO_ERROR))

    def text(key: int, version: int) -> Text:
        api = apis[key]
        if not api.min_version <= version <= api.max_version:
            return Text("")
        if results.compared is None:
            return Text("○", "part", "not compared in this run")
        outcomes = {outcome for k, v, outcome in results.compared if (k, v) == (key, version)}
        success = "success" in outcomes or (api.module, version) in no_success
        error = "error" in outcomes or (api.module, version) in no_error
        told = ", ".join(sorted(outcomes)) or "nothing"
        return Text("●", "good", told) if success and error else Text("◐" if outcomes else "○", "part", told)

    rows = [row(f"{key} {api.name}", *(text(key, version) for version in range(newest + 1))) for key, api in sorted(apis.items())]
    missing = [f"{api.name} ({key})" for key, api in sorted(APIS.items()) if key not in apis]
    return [
        Heading("APIs and versions"),
        Paragraph(
            "●: at this version, a success and an error were compared with Apache Kafka's answers, field by field (or only one "
            "of them, if there can be only one); ◐: one of the two was compared; ○: served, but not compared in this run."
        ),
        Table(("API", *map(str, range(newest + 1))), rows),
        Paragraph("Not served, because a single node has no use for them: " + ", ".join(missing) + "."),
    ]


# Suites of others


def _kafka_tests(results: Results) -> list[Block]:
    blocks: list[Block] = [Heading("Kafka's own tests")]
    if not results.kafka_tests:
        return [*blocks, Paragraph("Not run.")]
    says = (
        "These are the integration tests of the clients, the tools and Streams 4.3.1, as published for Maven; each case has "
        "a new broker. Only the cases that Apache Kafka 4.4.0 passes in this harness are counted."
    )
    blocks += [Paragraph(says), *_counted_by_class(results.kafka_tests, _why_out)]
    if results.several:
        says = "Those that need several brokers, each case with as many as it asks for, and with a controller of Apache Kafka:"
        blocks += [Paragraph(says), *_counted_by_class(results.several, lambda each: str(each["reason"]))]
    return blocks


def _counted_by_class(cases: list[dict[str, Any]], why_out: Callable[[dict[str, Any]], str]) -> list[Block]:
    """Returns a table of the cases of Kafka's own tests, what ottla does not pass of them, and what is not counted."""
    by_class: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in cases:
        by_class[each["class"].rpartition(".")[2]].append(each)
    out = Counter(why_out(each) for each in cases if each["kafka"] not in (PASSED, None))
    rows = [row(name, _score(_of_kafkas(of, "kafka")), _score(_of_kafkas(of, "ottla"))) for name, of in sorted(by_class.items())]
    failing = [
        row(f"{each['class']}#{each['case']}", each["reason"] or "not run")
        for each in cases
        if each["kafka"] == PASSED and each["ottla"] != PASSED
    ]
    return [
        Table(("class", "Apache Kafka", "ottla"), rows),
        *([Table(("not passed by ottla", "why"), failing)] if failing else []),
        Folded(
            _not_counted(sum(out.values())),
            [Table(("why", "cases"), [row(why, str(number)) for why, number in out.most_common()])],
        ),
    ]


def _not_counted(cases: int) -> str:
    return "1 case is not counted" if cases == 1 else f"{cases} cases are not counted"


def _why_out(case: dict[str, Any]) -> str:
    several = case["brokers"] > 1
    return "needs several brokers" if several else case["reason"]


def _suites(results: Results) -> list[Block]:
    cases = listed()
    rows = [row(name, why) for name, why in cases["out"].items()]
    kafka, ottla = (_score(_of_kafka_python(results, kind)).text for kind in ("kafka", "ottla"))
    return [
        Heading("kafka-python's own tests"),
        Paragraph(
            f"The integration tests of {cases['library']} {cases['version']} from its source distribution, "
            "with the waits that are listed under the known differences: "
            f"{len(cases['passes'])} cases pass with Apache Kafka. In this run: "
            f"Apache Kafka {kafka}, ottla {ottla}."
        ),
        Folded(_not_counted(len(rows)), [Table(("case", "why"), rows)]),
        *_aiokafka(results),
    ]


def _aiokafka(results: Results) -> list[Block]:
    blocks: list[Block] = [Heading("aiokafka's own tests")]
    if not results.aiokafka:
        return [
            *blocks,
            Paragraph("Not run: its source distributions (0.7 to 0.14) contain no tests, and CI downloads with pip only."),
        ]
    cases = results.aiokafka["cases"]
    rest = [row(case, of.get("kafka", ""), of.get("ottla", "")) for case, of in cases.items() if set(of.values()) != {PASSED}]
    kafka, ottla = (_score(_of_aiokafka(results, kind)).text for kind in ("kafka", "ottla"))
    says = (
        f"The integration tests of aiokafka {results.aiokafka['version']}, without those of SSL and SASL, run from a checkout, "
        f"because its source distributions contain no tests. "
        f"Of the cases that Apache Kafka passes: Apache Kafka {kafka}, ottla {ottla}."
    )
    return [*blocks, Paragraph(says), *([Table(("not passed by both", "Apache Kafka", "ottla"), rest)] if rest else [])]


# Breaks


def _breaks(results: Results) -> list[Block]:
    blocks: list[Block] = [Heading("Would a mistake be noticed?")]
    if not results.breaks:
        return [*blocks, Paragraph("The deliberate breaks were not run.")]
    verdicts = {True: Text("caught", "good"), False: Text("not caught", "bad")}
    rows = [
        row(each["name"], each["promise"], verdicts[each["caught"]], f"`{each['by']}`" if each["by"] else "")
        for each in results.breaks["breaks"]
    ]
    says = (
        "ottla was broken on purpose, one place at a time (`scripts/breaks.py`), and the tests that should notice were run each "
        f"time. With nothing broken, as the control, {results.breaks['control']} cases of these tests passed."
    )
    return [*blocks, Paragraph(says), Table(("break", "the promise it breaks", "verdict", "by which test"), rows)]


def _outside() -> list[Block]:
    return [Heading("Out of scope"), Table(("what", "why"), [row(what, why) for what, why in OUTSIDE])]


def readme_lines(results: Results) -> list[str]:
    """Returns the summary for README: a list, and where to read more."""
    lines = [
        f"- {line.part}: ottla {_with_pending(line).text}" + (f", Apache Kafka {_score(line.kafka).text}" if line.kafka else "")
        for line in summary(results)
    ]
    return [*lines, "", "All of it, by API, version, client and test: [docs/compatibility.md](docs/compatibility.md)."]
