"""Compiles the one module whose loops run once a record; everything else of the build is in pyproject.toml.

mypyc turns `wire/kernel.py` into an extension module beside its source, which then wins the import. The extension is optional:
without a C compiler the install says so, succeeds, and the same source runs uncompiled. What mypyc makes needs nothing at run
time but mypy_extensions, one of our dependencies.
"""

from mypyc.build import mypycify
from setuptools import setup

extensions = mypycify(["ottla/wire/kernel.py"])
for extension in extensions:
    extension.optional = True
    # Functions that stay inside the library can be inlined into each other: a third of the time for a record.
    extension.extra_compile_args.append("-fvisibility=hidden")

setup(ext_modules=extensions)
