"""Keeps the ledger of the proofs that take hours: what ran, on which commit and machine, and what it found.

    python -m scripts.proofs        writes docs/proofs.md from docs/proofs.json

Fuzzing, the simulation, the checker outside, the soak and clusters under faults say more the longer they run, and nobody has a
machine for days. So each of their scripts has `--record`, which adds what it did to the ledger, and the next one goes on from
there: `scripts.simulate --more` takes seeds that nobody had, and `scripts.fuzz` begins with the inputs that are kept in
tests/fuzz/corpora.

A run is a line in the ledger. `proof` says which of PROOFS it is of, and texts beside it tell runs apart; numbers are counts, and
are added to those of an earlier run with the same texts. `seeds` are ranges. A finding has an `outcome`: the test that keeps it
fixed, or why it is nothing of ours. Whoever records one fills that in; tests/scripts/test_proofs.py asks for it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from compat_tests.provenance import stamp
from scripts.written_pages import main

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
LEDGER: Final = DOCS / "proofs.json"
PAGE: Final = DOCS / "proofs.md"
FUZZ, SIMULATION, OUTSIDE, SOAK, CLUSTER, MOVE = "fuzz", "simulation", "outside", "soak", "cluster", "move"
APPLICATIONS: Final = "applications"
SIMULATED_CLUSTER: Final = "cluster simulation"
PROOFS: Final = (FUZZ, SIMULATION, SIMULATED_CLUSTER, OUTSIDE, SOAK, CLUSTER, MOVE, APPLICATIONS)
KEPT: Final = Path("tests/fuzz/corpora")
FIRST_SEED: Final = 1000
"""The unit tests simulate the seeds below this (tests/sim/test_simulation.py)."""

Run = dict[str, Any]


def origin() -> dict[str, str]:
    """Returns where a run happens, for the ledger: date, commit and machine. Take it before the run."""
    return {**stamp(), "machine": machine()}


def machine() -> str:
    found = re.search(r"model name\s*: (.*)", _text(Path("/proc/cpuinfo")))
    model = " ".join(found[1].split()) if found else platform.machine()
    return f"{os.cpu_count()} x {model}, Python {platform.python_version()}"


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


# Seeds


def seeds_in(ranges: str) -> set[int]:
    """Returns the numbers in ranges such as `0-9,12`."""
    found: set[int] = set()
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def as_ranges(seeds: Iterable[int]) -> str:
    """Returns numbers as ranges, `seeds_in` the other way round."""
    ranges: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if ranges and seed == ranges[-1][1] + 1:
            ranges[-1][1] = seed
        else:
            ranges.append([seed, seed])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def next_seed(runs: Iterable[Run], proof: str = SIMULATION) -> int:
    """Returns the first seed of a simulation above all that a run has had, and above those of the unit tests."""
    return max((max(seeds_in(run["seeds"])) + 1 for run in runs if run["proof"] == proof), default=FIRST_SEED)


# The ledger


class Ledger:
    """The runs and findings in a file of JSON, which need not be there yet."""

    def __init__(self, path: Path = LEDGER) -> None:
        self._path = path
        read = json.loads(path.read_text()) if path.exists() else {}
        self.runs: list[Run] = read.get("runs", [])
        self.findings: list[dict[str, str]] = read.get("findings", [])

    def add(
        self,
        proof: str,
        texts: Mapping[str, str],
        counts: Mapping[str, float],
        *,
        seeds: Iterable[int] = (),
        most: Mapping[str, float] | None = None,
        found: Iterable[str] = (),
    ) -> None:
        """Adds a run to an earlier one that differs in its counts and seeds only, or as a new one, and what it found. `texts`
        has what `origin` returns, too. Of `most`, the greater number counts, not the sum."""
        assert proof in PROOFS, proof
        about = {"proof": proof, **texts}
        run = next((each for each in self.runs if _texts_of(each) == about), None)
        if run is None:
            run = dict(about)
            self.runs.append(run)
        for name, count in counts.items():
            run[name] = round(run.get(name, 0) + count, 2)
        for name, number in (most or {}).items():
            run[name] = round(max(run.get(name, number), number), 2)
        if ranges := as_ranges({*seeds_in(run.get("seeds", "")), *seeds}):
            run["seeds"] = ranges
        self.findings += [{"proof": proof, "commit": texts["commit"], "what": what, "outcome": ""} for what in found]

    def save(self) -> None:
        """Writes the file, a line for each run and each finding, so that two branches' additions merge."""
        parts = [
            f'"{name}": [\n' + ",\n".join(json.dumps(each, ensure_ascii=False) for each in entries) + "\n]"
            for name, entries in (("runs", self.runs), ("findings", self.findings))
        ]
        self._path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def _texts_of(run: Run) -> dict[str, str]:
    return {name: value for name, value in run.items() if isinstance(value, str) and name != "seeds"}


def record(
    proof: str,
    texts: Mapping[str, str],
    counts: Mapping[str, float],
    *,
    seeds: Iterable[int] = (),
    most: Mapping[str, float] | None = None,
    found: Iterable[str] = (),
    path: Path = LEDGER,
) -> None:
    """Adds a run to the ledger in the file, as `Ledger.add` does, and writes the page beside it."""
    ledger = Ledger(path)
    ledger.add(proof, texts, counts, seeds=seeds, most=most, found=found)
    ledger.save()
    path.with_suffix(".md").write_text(page(ledger, kept_corpora()))


def kept_corpora(folder: Path = DOCS.parent / KEPT) -> dict[str, tuple[int, int]]:
    """Returns how many inputs of each target are kept, and how many bytes they have on disk."""
    return {path.stem: (len(path.read_text().split()), path.stat().st_size) for path in sorted(folder.glob("*.txt"))}


# The page


def page(ledger: Ledger, corpora: Mapping[str, tuple[int, int]]) -> str:
    of: dict[str, list[Run]] = defaultdict(list)
    for run in ledger.runs:
        of[run["proof"]].append(run)
    return "\n".join(
        [
            "# What ran for hours",
            "",
            "Some proofs say more the longer they run. Their scripts add what they did to `proofs.json` when they are given",
            "`--record`, so these figures grow with every machine that has time to spare. `python -m scripts.proofs` writes this",
            "page; do not edit it. CI runs a short form of the first two, which is not counted here.",
            "",
            "A run is of the commit that is named with it. On another commit, the same seed is another run.",
            "",
            *_table(("proof", "wanted", "done", "with what it found"), _in_short(of, ledger)),
            "",
            "## Fuzzing, guided by coverage",
            "",
            "`python -m scripts.fuzz --hours 1 --record` goes on. Each target says in its docstring what it promises of any",
            f"bytes (`tests/fuzz/targets/`). The inputs that are kept, in `{KEPT}`, reach all code that was reached when they",
            "were written. Each run begins with them, in CI as well, and `--keep` adds what it found to them.",
            "",
            *_table(("target", "CPU minutes", "inputs", "kept"), _fuzzing(of[FUZZ], corpora)),
            "",
            *_of_simulations(of),
            "## The checker outside",
            "",
            "`python -m scripts.check_outside --runs 10 --record`: real clients of three libraries at a real broker. Things",
            "break for as many seconds as are named; then everything is repaired, and read once more. With",
            "`--clusters ooo,ook,kkk` they work at three brokers, o for ottla and k for Apache Kafka, with three replicas and",
            "min.insync.replicas=2; in the end all replicas have to come to be in sync, and to be the same bytes.",
            "",
            *_table(("broker", "faults", "seconds", "runs", "lives", "sends", "transactions", "anomalies"), _outside(of)),
            "",
            "## The soak",
            "",
            "`python -m scripts.soak --hours 2 --out FILE --record`, on a machine that does nothing else.",
            "",
            *_table(("commit", "date", "hours", "rounds", "kills", "promises checked", "verdict"), _soaks(of)),
            "",
            *_slopes(of),
            *_of_clusters(of),
            "## What was found",
            "",
            *_findings(ledger.findings),
            "",
            "## Where",
            "",
            *[f"- {each}" for each in sorted({run["machine"] for run in ledger.runs})],
            "",
        ]
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *lines] if lines else ["Nothing yet."]


def _sum(runs: Iterable[Run], name: str) -> float:
    return float(sum(run.get(name, 0) for run in runs))


def _in_short(of: Mapping[str, list[Run]], ledger: Ledger) -> Iterable[Sequence[str]]:
    found = {proof: sum(each["proof"] == proof for each in ledger.findings) for proof in PROOFS}
    cpu_hours = _sum(of[FUZZ], "cpu_seconds") / 3600
    yield "fuzzing", "8 hours of CPU", f"{cpu_hours:.1f} hours, {_sum(of[FUZZ], 'inputs'):,.0f} inputs", _found(found[FUZZ])
    yield "simulated broker", "100,000 seeds", f"{_seeds(of[SIMULATION]):,} seeds", _found(found[SIMULATION])
    seeds = f"{_seeds(of[SIMULATED_CLUSTER]):,} seeds"
    yield "simulated cluster", "10,000 seeds", seeds, _found(found[SIMULATED_CLUSTER])
    runs = _sum([run for run in of[OUTSIDE] if run["broker"] == "ottla" and run["seconds each"] == "100"], "runs")
    of_clusters = sum(each["proof"] == OUTSIDE and _names_a_cluster(each["what"].split(",")[0]) for each in ledger.findings)
    of_brokers = found[OUTSIDE] - of_clusters
    wanted = "10 runs of 100 s under kill, pause, full disk and power cut"
    yield "checker outside", wanted, f"{runs:.0f} runs of 100 s in all", _found(of_brokers)
    wanted = "10 runs of 100 s on three of ottla, 5 on mixed clusters, as many on Apache Kafka's"
    yield "checker outside, clusters", wanted, _runs_on_clusters(of[OUTSIDE]), _found(of_clusters)
    hours = max((run["hours"] for run in of[SOAK]), default=0)
    yield "soak", "2 hours in one go", f"{hours:.2f} hours" if hours else "not yet", _found(found[SOAK])
    rounds = [(run["fault"], run["rounds"]) for run in of[CLUSTER]]
    fewest = min((sum(count for fault, count in rounds if fault == each) for each in {fault for fault, _ in rounds}), default=0)
    yield "clusters under faults", "20 rounds of each fault", f"{fewest:.0f} rounds or more of each", _found(found[CLUSTER])


def _names_a_cluster(broker: str) -> bool:
    return len(broker) == 3 and not {*broker} - {"o", "k"}


def _runs_on_clusters(runs: Iterable[Run]) -> str:
    done: dict[str, int] = dict.fromkeys(("of ottla", "mixed", "of Kafka"), 0)
    for run in runs:
        if _names_a_cluster(run["broker"]) and run["seconds each"] == "100":
            done[{"ooo": "of ottla", "kkk": "of Kafka"}.get(run["broker"], "mixed")] += run["runs"]
    return ", ".join(f"{count:.0f} {kind}" for kind, count in done.items())


def _found(count: int) -> str:
    return f"{count} finding{'s' * (count != 1)}" if count else "nothing"


def _seeds(runs: Iterable[Run]) -> int:
    return sum(len(seeds_in(run["seeds"])) for run in runs)


def _fuzzing(runs: Iterable[Run], corpora: Mapping[str, tuple[int, int]]) -> Iterable[Sequence[str]]:
    of: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        of[run["target"]].append(run)
    for target in sorted({*of, *corpora}):
        inputs, size = corpora.get(target, (0, 0))
        minutes = f"{_sum(of[target], 'cpu_seconds') / 60:.1f}"
        yield f"`{target}`", minutes, f"{_sum(of[target], 'inputs'):,.0f}", f"{inputs:,} inputs, {size / 1024:,.0f} KiB"


def _of_simulations(of: Mapping[str, list[Run]]) -> list[str]:
    head = "commit", "date", "seeds", "lives of a broker", "events of clients", "simulated hours"
    return [
        "## The simulated broker",
        "",
        "`python -m scripts.simulate --more 1000 --record` goes on with seeds that nobody had.",
        "",
        *_table(head, _simulated(of[SIMULATION])),
        "",
        "With `--cluster`, three brokers of ottla and a model of their controllers are simulated:",
        "",
        *_table(head, _simulated(of[SIMULATED_CLUSTER])),
        *_excused(of[SIMULATED_CLUSTER]),
        "",
    ]


def _simulated(runs: Iterable[Run]) -> Iterable[Sequence[str]]:
    for run in runs:
        hours = f"{run['virtual_s'] / 3600:.1f}"
        yield run["commit"], run["date"], run["seeds"], f"{run['lives']:,.0f}", f"{run['events']:,.0f}", hours


def _excused(runs: Iterable[Run]) -> list[str]:
    """Returns a sentence on the answers that no check looked at, in the runs that counted them."""
    counted = [run for run in runs if "excused" in run]
    if not counted:
        return []
    events, excused = _sum(counted, "events"), _sum(counted, "excused")
    of = f"Of {events:,.0f} events {excused:,.0f} were latest offsets"
    return ["", f"{of} of brokers that did not know of a new leader yet: excused."]


def _outside(of: Mapping[str, list[Run]]) -> Iterable[Sequence[str]]:
    groups: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    for run in of[OUTSIDE]:
        groups[run["broker"], run["faults"], run["seconds each"]].append(run)
    for kind, runs in sorted(groups.items()):
        counts = [f"{_sum(runs, name):,.0f}" for name in ("runs", "lives", "sends", "transactions", "anomalies")]
        yield *kind, *counts


def _soaks(of: Mapping[str, list[Run]]) -> Iterable[Sequence[str]]:
    for run in of[SOAK]:
        counts = [f"{run[name]:,.0f}" for name in ("rounds", "kills", "promises")]
        yield run["commit"], run["date"], f"{run['hours']:.2f}", *counts, run["verdict"]


def _slopes(of: Mapping[str, list[Run]]) -> list[str]:
    """Returns the slopes of the last run that noted them, as scripts/soak/report.py has them."""
    run = next((run for run in reversed(of[SOAK]) if run.get("slopes")), None)
    if run is None:
        return []
    head = ("broker", "what", "first", "median", "last", "slope an hour", "95 %", "bound", "verdict")
    return [
        f"What the brokers of {run['commit']} took, how long they let clients wait, and how both changed. One is",
        "killed about once a minute, the other lasts. `level` is surely not above its bound, `open` may be.",
        "",
        *_table(head, (row.split(" | ") for row in run["slopes"].splitlines())),
        "",
    ]


def _of_clusters(of: Mapping[str, list[Run]]) -> list[str]:
    return [
        "## Clusters of ottla and Apache Kafka under faults",
        "",
        "`python -m scripts.cluster_faults --rounds 4 --record`: three brokers, o for ottla and k for Apache Kafka, three",
        "replicas, min.insync.replicas=2, an idempotent producer all the time. A round is one fault of one broker; in",
        "the end each acknowledged record has to be there once and in order, and all replicas have to be the same bytes. A",
        "leader is late that is not there within the session and 1.5 s, or 2 s after SIGTERM.",
        "",
        *_table(
            (
                "brokers",
                "fault",
                "hit",
                "session",
                "rounds",
                "records",
                "slowest leader",
                "late",
                "longest without an answer",
            ),
            _clusters(of),
        ),
        "",
        "`python -m scripts.cluster_moves --record`: `kafka-reassign-partitions` moves a topic from Apache Kafka to ottla",
        "and back while it is written and read. Each record is read once and in order, and all replicas are the same bytes.",
        "",
        *_table(("commit", "date", "MB at first", "load", "there", "back", "records written and read once"), _moves(of)),
        "",
        "`python -m scripts.application_kills --record`: Kafka Streams with exactly_once_v2, and two workers of Kafka Connect,",
        "with exactly.once.source.support (connect-once) and without, while each broker is killed in turn and started again, and",
        "then the application or a worker. Each word has to be counted once, and each line has to come once, or at least once",
        "where Connect promises no more: `again` are lines that came to the topic or, from there, to the file more than once.",
        "",
        *_table(
            ("application", "brokers", "kills of a broker", "other rounds", "records", "again", "slowest kill"), _applications(of)
        ),
        "",
    ]


def _clusters(of: Mapping[str, list[Run]]) -> Iterable[Sequence[str]]:
    groups: dict[tuple[str, ...], list[Run]] = defaultdict(list)
    for run in of[CLUSTER]:
        groups[run["brokers"], run["fault"], run["hit"], f"{run['session_s']} s"].append(run)
    for kind, runs in sorted(groups.items()):
        slowest, longest = (max(run[name] for run in runs) for name in ("leader_s", "outage_s"))
        rounds, records, late = (f"{_sum(runs, name):,.0f}" for name in ("rounds", "records", "late"))
        yield *kind, rounds, records, f"{slowest:.2f} s", late, f"{longest:.1f} s"


def _moves(of: Mapping[str, list[Run]]) -> Iterable[Sequence[str]]:
    for run in of[MOVE]:
        seconds = (f"{run[name]:.1f} s" for name in ("there_s", "back_s"))
        yield run["commit"], run["date"], run["megabytes"], run["load"], *seconds, f"{run['records']:,.0f}"


def _applications(of: Mapping[str, list[Run]]) -> Iterable[Sequence[str]]:
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in of[APPLICATIONS]:
        groups[run["application"], run["brokers"]].append(run)
    for kind, runs in sorted(groups.items()):
        counts = (f"{_sum(runs, name):,.0f}" for name in ("kills", "others", "records", "again"))
        yield *kind, *counts, f"{max(run['slowest_s'] for run in runs):.1f} s"


def _findings(findings: Iterable[Mapping[str, str]]) -> list[str]:
    lines = []
    for each in findings:
        lines += [f"- {each['proof']}, {each['commit']}: {each['what']}", f"  {each['outcome'] or 'Not looked at yet.'}"]
    return lines or ["Nothing."]


def pages() -> dict[Path, str]:
    """Returns the file with its text."""
    return {PAGE: page(Ledger(), kept_corpora())}


if __name__ == "__main__":
    sys.exit(main(__doc__, pages))
