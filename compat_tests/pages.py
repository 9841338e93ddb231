"""The commands of the pages in docs/, step by step."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
_STEP: Final = re.compile(r"^# (\d+)\. .*\n", re.MULTILINE)


def steps(page: str, section: str, count: int) -> list[str]:
    """Returns the commands of a section's block of bash, step by step; each step follows a comment with its number. Raises
    AssertionError unless there are so many."""
    block = (DOCS / page).read_text().partition(f"## {section}\n")[2].partition("```bash\n")[2].partition("```")[0]
    _, *parts = _STEP.split(block)
    assert parts[::2] == [str(number) for number in range(1, count + 1)]
    return parts[1::2]
