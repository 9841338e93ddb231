"""The page about stalls is what the script makes of the figures beside it."""

from __future__ import annotations

import pytest

from scripts.bench import stall_page
from scripts.bench.stall_page import FIGURES, PAGE, Seen, add_rows, page, pages
from scripts.written_pages import outdated


def test_the_page_is_up_to_date() -> None:
    assert outdated(pages()) == []


def test_rows_of_one_kind_replace_older_ones(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    figures, text = FIGURES.__class__(f"{tmp_path}/figures.json"), PAGE.__class__(f"{tmp_path}/page.md")
    monkeypatch.setattr(stall_page, "FIGURES", figures)
    monkeypatch.setattr(stall_page, "PAGE", text)
    add_rows("ottla", {"many names": Seen(80, 90, 1, 5, ""), "nothing": Seen(0, 0, 0, 0, "")})
    add_rows("kafka", {"many names": Seen(2_000, 2_000, 3, -1, "closed")})
    add_rows("ottla", {"many names": Seen(8, 90, 1, 5, "")})
    rows = [line for line in text.read_text().splitlines() if line.startswith("| ")][1:]
    assert rows == [
        "| nothing | 0 ms | 0 MiB | 0.0 s | not measured | | |",
        "| many names | 8 ms | 5 MiB | 1.0 s | 2,000 ms | 0 MiB | 3.0 s, closed |",
    ]


@pytest.mark.parametrize(("loads", "says"), [([0.5, 1.9], "nothing else"), ([0.5, 2.0], "work; its load was between 0.5 and 2.")])
def test_the_page_says_whether_the_machine_was_busy(loads: list[float], says: str) -> None:
    seen = Seen(0, 0, 0, 0, "")._asdict()
    rows = {f"row {at}": {"ottla": {**seen, "load": load}} for at, load in enumerate(loads)}
    text = page({"machine": {"cpus": 2, "disk": "a disk", "day": "2026-01-01"}, "rows": rows})
    assert says in text.replace("\n", " ")


def test_the_page_says_whether_other_work_came_later() -> None:
    row = {**Seen(0, 0, 0, 0, "")._asdict(), "load": 9.5, "nice": -20}
    text = page({"machine": {"cpus": 2, "disk": "a disk", "day": "2026-01-01"}, "rows": {"row": {"ottla": row}}})
    assert "busy with other work, which mostly came after this (nice); its load" in text.replace("\n", " ")
