"""What a Python worker of Spark does between two tasks, made cheap where it is known to be dear.

Workers live on from task to task. Each begins one by `importlib.invalidate_caches()`. They import pyspark from `pyspark.zip`, and
up to Python 3.11 each finder of a zip file reads the directory of the whole file again then: with the finders of seventeen
packages that is 0.1 s of work before a task begins, as much as it takes to plan a query. A finder that is not there has nothing
to read, and the next import makes a new one, of the directory that is in memory.

And each ends one by `gc.collect()`, which looks at all that pyspark, pandas and pyarrow are made of: 0.04 s. Those objects stay
for the worker's life, and the collector need not look at them.
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
