"""Compiles the one module whose loops run per record; everything else of the build is in pyproject.toml.

Where there is no C compiler the install still succeeds and the same source runs uncompiled.
"""

from mypyc.build import mypycify
from setuptools import setup

extensions = mypycify(["ottla/wire/kernel.py"]) if __import__("os").path.exists("ottla/wire/kernel.py") else []
for extension in extensions:
    extension.optional = True

setup(ext_modules=extensions)
