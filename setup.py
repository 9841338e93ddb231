"""Compiles the modules whose loops run once a record; everything else of the build is in pyproject.toml.

mypyc turns `wire/kernel.py`, `wire/columns.py` and `log/offset_map.py` into extension modules beside their sources, which then
win the import. They share one library, so that the others call the functions of the first as C functions. The extensions are
optional: without a C compiler the install says so, succeeds, and the same source runs uncompiled. What mypyc makes needs nothing
at run time but mypy_extensions, one of our dependencies; and librt for `wire/columns.py`, by the extra `spark`.
"""

from mypyc.build import mypycify
from setuptools import setup

sources = ["ottla/wire/kernel.py", "ottla/wire/columns.py", "ottla/log/offset_map.py"]
extensions = mypycify(sources, group_name="ottla.wire.kernel")
for extension in extensions:
    extension.optional = True
    # Functions that stay inside the library can be inlined into each other: a third of the time for a record.
    extension.extra_compile_args.append("-fvisibility=hidden")

setup(ext_modules=extensions)
