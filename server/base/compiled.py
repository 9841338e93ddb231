"""Says whether the busiest modules run compiled; setup.py names them, and explains why they may not be."""

from __future__ import annotations

from typing import Final

NOT_COMPILED: Final = (
    "not compiled: a small Produce takes more than three times the CPU; install gcc and Python's headers, then ottla again"
)
"""The text for a user who has only the source."""


def is_compiled() -> bool:
    """Returns whether the modules that setup.py names are compiled: all of them are, or none."""
    from ottla.wire.integers import COMPILED  # every broker has it; `ottla --help` need not

    return COMPILED
