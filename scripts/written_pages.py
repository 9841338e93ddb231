"""Writes what a script makes of the sources, pages and pictures, or checks that the files are up to date.

    python -m scripts.rights_page            writes the files, and prints their names
    python -m scripts.rights_page --check    writes nothing; the exit code is 1 if a file is out of date

Every script whose files follow from the sources alone, or from figures in docs/, ends in `main` here. Its function `pages`
returns the files, and a test asks `outdated` about them.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Pages = Mapping[Path, str]
"""The text that each file should have."""


def outdated(pages: Pages) -> list[str]:
    """Returns the files that are missing or have another text, by their paths from here."""
    return [os.path.relpath(path) for path, text in pages.items() if not path.exists() or path.read_text() != text]


def write(pages: Pages) -> None:
    """Writes the files, and prints their names."""
    for path, text in pages.items():
        path.write_text(text)
        print(os.path.relpath(path))


def main(description: str | None, pages: Callable[[], Pages], given: Sequence[str] | None = None) -> int:
    """Writes the pages, or checks them. `given` are the arguments, those of the process by default. Returns the exit code."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is out of date")
    check = parser.parse_args(given).check
    return write_or_check(pages(), check=check)


def write_or_check(pages: Pages, *, check: bool) -> int:
    """Writes the pages, or says which are out of date. Returns the exit code."""
    if not check:
        write(pages)
        return 0
    found = outdated(pages)
    print(f"out of date: {', '.join(found)}" if found else "up to date")
    return 1 if found else 0
