"""Writes docs/compatibility.md, .html and .svg from what the suites left behind.

    scripts/compat-report [--results FOLDER] [--docs FOLDER]     from results that are there, and prints README's lines
    scripts/compat-report --texts                                only the sections that come from the source, into these pages
    scripts/compat-report --run short                            runs what CI runs, then writes
    scripts/compat-report --run full                             its long form, breaks, random walk, Kafka's tests: many hours

FOLDER is build/compat, where scripts/test leaves its results. What was not run is called so in the report. With --strict the exit
code is 1 if anything that was run did not hold.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from scripts.compat_report.blocks import Block
from scripts.compat_report.pages import html, html_of, markdown
from scripts.compat_report.results import FAILED, KEPT, Results, read
from scripts.compat_report.sections import TITLE, from_source, readme_lines, report, summary

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "build" / "compat"
SHORT = (["scripts/test", "compat"], ["scripts/test", "spark"])
LONG = (
    [sys.executable, "-m", "scripts.breaks", "--write", str(KEPT / "breaks.json")],
    [sys.executable, "-m", "scripts.random_walk", "--write", str(KEPT / "random_walk.json")],
    [sys.executable, "-m", "scripts.kafka_tests"],
)
"""The commands that CI leaves out for their length."""


def run(form: str, results: Path) -> None:
    """Runs every part, whatever became of the one before; their results are in the report."""
    for old in [*results.glob("*.xml"), *results.glob("*.run.json"), *results.glob("wire_diff/*.json")]:
        old.unlink()
    environment = {name: value for name, value in os.environ.items() if name != "OTTLA_FULL"}
    environment |= {"OTTLA_COMPAT_RESULTS": str(results)} | ({"OTTLA_FULL": "1"} if form == "full" else {})
    KEPT.mkdir(exist_ok=True)
    for command in SHORT + (LONG if form == "full" else ()):
        subprocess.run(command, cwd=ROOT, env=environment, check=False)


def add_up(results: Path) -> None:
    """Adds up the ledgers of what was compared, to figures."""
    figures = results / "wire_diff.json"
    figures.unlink(missing_ok=True)
    if any(results.glob("wire_diff/*.json")):
        command = [sys.executable, "-m", "scripts.wire_diff_complete", str(results / "wire_diff"), "--write", str(figures)]
        subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)  # its exit code is a figure, too


def write_pages(docs: Path, blocks: list[Block]) -> None:
    (docs / "compatibility.md").write_text(markdown(blocks))
    (docs / "compatibility.html").write_text(html(TITLE, blocks))


def write_texts(docs: Path) -> None:
    """Writes the sections that come from the source into the pages that are there, and leaves what was measured as it is."""
    blocks = from_source()
    for name, new, end in (
        ("compatibility.md", markdown(blocks), ""),
        ("compatibility.html", html_of(blocks), "\n</body>\n</html>\n"),
    ):
        before, first, _ = (docs / name).read_text().partition(new.partition("\n")[0] + "\n")
        assert first, f"{name} has no such section: {new.partition(chr(10))[0]}"
        (docs / name).write_text(f"{before}{new}{end}")


def holds(results: Results) -> bool:
    pairs = [pair for line in summary(results) for pair in (line.kafka, line.ottla) if pair is not None]
    return all(good == of for good, of in pairs) and not any(test.outcome == FAILED for test in results.tests)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="compat-report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--run", choices=("short", "full"))
    parser.add_argument("--texts", action="store_true")
    arguments = parser.parse_args()
    if arguments.texts:
        write_texts(arguments.docs)
        return 0
    folder = arguments.results.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.run:
        run(arguments.run, folder)
    add_up(folder)
    results = read(folder)
    blocks = report(results)
    arguments.docs.mkdir(parents=True, exist_ok=True)
    write_pages(arguments.docs, blocks)
    picture = next(block.svg for block in blocks if hasattr(block, "svg"))
    (arguments.docs / "compatibility.svg").write_text(picture)
    print(*readme_lines(results), sep="\n")
    return 0 if holds(results) or not arguments.strict else 1


if __name__ == "__main__":
    sys.exit(main())
