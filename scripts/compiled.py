"""Whether the machine code that setup.py made is that of the sources beside it: else a test would run what was there before."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


def outdated() -> list[str]:
    """Names of compiled modules whose source has changed since the library that they share was made."""
    built = [library for package in ("wire", "log", "server") for library in (ROOT / package).rglob("*.so")]
    made = max((library.stat().st_mtime for library in built), default=0.0)
    sources = [library.with_name(f"{library.name.partition('.')[0]}.py") for library in built]
    return [source.name for source in sources if source.exists() and source.stat().st_mtime > made]


def why_not_to_test() -> str:
    """For a person; empty where there is nothing to say."""
    names = outdated()
    return f"compile first, python setup.py build_ext --inplace: {', '.join(names)} changed" if names else ""
