"""Makes two expensive things cheap that a Python worker of Spark does between two tasks.

Workers live on from task to task. A task begins with `importlib.invalidate_caches()`. Workers import pyspark from `pyspark.zip`,
and up to Python 3.11 each finder of a zip file then reads the directory of the whole file again: with the finders of seventeen
packages that is 0.1 s of work before a task begins, as much as planning a query takes. A finder that was removed has nothing to
read, and the next import makes a new one from the directory in memory.

A task ends with `gc.collect()`, which visits all objects of pyspark, pandas and pyarrow, in 0.04 s. Those objects stay for the
worker's life, so the collector need not visit them.
"""

from __future__ import annotations

import gc
import sys
from functools import cache
from zipimport import zipimporter

_DAEMON = "pyspark.daemon"


def lighten() -> None:
    """Makes the beginning of the next task cheap; is called at the end of one. Does nothing outside a worker of Spark."""
    if not is_worker():
        return
    _freeze()
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):  # Spark's zip files do not change while a worker runs
            sys.path_importer_cache.pop(path, None)


@cache
def _freeze() -> None:
    """Freezes all objects, once only: the collector would count them, in 7 ms, to say whether they are frozen already."""
    gc.freeze()


def is_worker() -> bool:
    """Returns whether Spark's daemon forked this process."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == _DAEMON
