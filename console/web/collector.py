"""The pace at which the garbage collector looks at the console's objects."""

from __future__ import annotations

import gc
from typing import Final

STEP: Final = 10_000
"""The number of new objects between two collections of the youngest; Python's default is 700."""
STEPS: Final = 5
"""The number of these before one of the middle ones."""


def run_less_often() -> None:
    """Makes the garbage collector run less often than Python does by default, and keeps it away from the objects that exist now,
    because they will stay.

    A page about 10,000 partitions is made of some 50,000 objects that live until it is done, none of them in a cycle, beside the
    cluster's metadata, which live for some seconds: the collector took a third of such a page's time. How often it looks at all
    objects is left to Python, since an error that a page has come to holds the page's objects in a cycle.
    """
    gc.freeze()
    gc.set_threshold(STEP, STEPS)
