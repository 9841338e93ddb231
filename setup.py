"""Compiles the modules that run once a record, and those that run once a partition of a request; the rest is in pyproject.toml.

mypyc turns them into extension modules beside their sources, which then win the import. They share one library, so that they call
each other as C functions. In it each module is a C file of its own: all cores compile at the same time, and gcc inlines within a
module only, which takes less than half of the CPU of one file with all. Either all are compiled or none: without a C compiler the
install succeeds, and the same source runs uncompiled, which `ottla --version` and a broker's log say. What mypyc makes needs
nothing at run time but mypy_extensions, and librt for what keeps machine integers (`wire/columns.py`, the cleaner's map); both
are dependencies of ours.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError
from setuptools.modified import newer_group

LOOPS = [
    "ottla/wire/kernel.py",
    "ottla/wire/columns.py",
    "ottla/log/index_order.py",
    "ottla/log/compaction/key_hash.py",
    "ottla/log/compaction/offset_map.py",
    "ottla/log/compaction/record_loops.py",
    "ottla/log/compaction/batch_walk.py",
]
"""Written for the compiler: machine integers, no objects."""
HOT_PATHS = [
    "ottla/wire/integers.py",
    "ottla/wire/primitives.py",
    "ottla/wire/header.py",
    "ottla/wire/single_produce.py",
    "ottla/wire/batch.py",
    "ottla/wire/records.py",
    "ottla/wire/items.py",
    "ottla/wire/messages/produce.py",
    "ottla/wire/messages/fetch.py",
    "ottla/wire/messages/offset_commit.py",
    "ottla/wire/messages/internal/offset_commit_key.py",
    "ottla/wire/messages/internal/offset_commit_value.py",
    "ottla/wire/messages/internal/transaction_log_key.py",
    "ottla/wire/messages/internal/transaction_log_value.py",
    "ottla/log/compaction/filtered_batch.py",
    "ottla/log/validate.py",
    "ottla/log/producers.py",
    "ottla/log/append_info.py",
    "ottla/log/appending.py",
    "ottla/log/markers.py",
    "ottla/log/joined_write.py",
    "ottla/log/partition.py",
    "ottla/log/rolling.py",
    "ottla/log/segments.py",
    "ottla/log/segment.py",
    "ottla/log/segment_indexes.py",
    "ottla/log/transactions.py",
    "ottla/server/base/answers.py",
    "ottla/server/base/promise.py",
    "ottla/server/base/turns.py",
    "ottla/server/coordination/internal_topic.py",
    "ottla/server/coordination/runtime.py",
    "ottla/server/coordination/shard.py",
    "ottla/server/network/connection.py",
    "ottla/server/network/file_regions.py",
    "ottla/server/network/held_appends.py",
    "ottla/server/network/holding.py",
    "ottla/server/network/sending.py",
    "ottla/server/dispatch/route.py",
    "ottla/server/dispatch/routes.py",
    "ottla/server/dispatch/measured.py",
    "ottla/server/partitions/fetch_answers.py",
    "ottla/server/partitions/fetch_sessions.py",
    "ottla/server/partitions/follower_state.py",
    "ottla/server/partitions/high_watermark.py",
    "ottla/server/partitions/replica.py",
    "ottla/server/partitions/traffic.py",
    "ottla/server/group/commits.py",
    "ottla/server/group/coordinator.py",
    "ottla/server/group/shard.py",
    "ottla/server/group/offsets.py",
    "ottla/server/group/records.py",
    "ottla/server/group/requests.py",
    "ottla/server/requests/request.py",
    "ottla/server/requests/session.py",
    "ottla/server/handlers/fetch.py",
    "ottla/server/handlers/offset_commit.py",
    "ottla/server/handlers/produce.py",
    "ottla/server/partitions/purgatory.py",
    "ottla/server/replication/isr.py",
    "ottla/server/txn/coordinator.py",
    "ottla/server/txn/records.py",
    "ottla/server/txn/shard.py",
    "ottla/server/txn/state.py",
    "ottla/server/txn/verification.py",
]
"""Plain Python, with machine integers where the bytes of requests and batches are read. Compiled, a small Produce takes 0.37 of
the CPU, a commit of 4 partitions 0.54, a transaction of 100 records 0.62, counting the items of a long request 0.5, a record
reaches who waits for it in 0.88 of the time, and an idle broker that leads and follows thousands of partitions takes 0.75. Of
the way of a commit or a transaction from the handler to the log, all modules are here, for each call from interpreted to compiled
code makes objects of its numbers; at gcc's -O1 instead of mypyc's -O3 a transaction takes 1.06. The other modules of server/group
were tried and gain nothing."""

MYPY = ["--config-file=", "--ignore-missing-imports"]
"""Types are checked elsewhere, with everything installed; where a package is built, our dependencies are not there."""

COMMANDS_THAT_COMPILE = frozenset(("build", "build_ext", "bdist_wheel", "editable_wheel", "install", "develop"))
"""pip runs this file three times, to ask what a build needs, for the metadata, and to build; mypyc takes 7 s each time."""


class BuildSideBySide(build_ext):
    """Compiles on all cores, and all extensions or none, because each needs the library that they share."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.parallel = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()

    def run(self) -> None:
        try:
            super().run()
        except (BaseError, CCompilerError) as error:
            self.warn(f"{UNCOMPILED}, because {error.__class__.__name__} (pip -v shows more)")
            for extension in self.extensions:
                for self.inplace in (False, True):
                    Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.extensions = []

    def build_extensions(self) -> None:
        from mypy.version import __version__ as mypy_version

        one_after_the_other = self.compiler.compile

        def compile_side_by_side(sources: Sequence[str], *, depends: Sequence[str] = (), **options: Any) -> list[str]:
            """Compiles the files of one extension, the longest first; returns the names of the objects.

            Objects stay in build/, so that the next build, as that of a wheel after an install, compiles only changed files.
            """
            flags = list(options.pop("extra_postargs", None) or ())
            made_with = repr((sys.version, mypy_version, self.compiler.compiler_so, flags, CODECS, LEVEL_OF_CODECS))
            options["output_dir"] = f"build/objects/{zlib.crc32(made_with.encode()):08x}"

            def compile_one(source: str) -> str:
                (name,) = self.compiler.object_filenames([source], output_dir=options["output_dir"])
                if newer_group([source, *depends], name):
                    level = [LEVEL_OF_CODECS] if CODECS in source else []
                    one_after_the_other([source], extra_postargs=[*flags, *level], **options)
                return name

            with ThreadPoolExecutor(self.parallel) as pool:
                return list(pool.map(compile_one, sorted(sources, key=os.path.getsize, reverse=True)))

        self.compiler.compile = compile_side_by_side
        super().build_extensions()


CODECS, LEVEL_OF_CODECS = "__native_ottla___wire___messages___", "-O1"
"""The files with the most C, straight lines of calls into Python: 28 s of CPU at mypyc's -O3, 10 at -O1."""
UNCOMPILED = "ottla is installed uncompiled, which does the same more slowly"


def compiler_works() -> bool:
    """Returns whether there is a C compiler that finds Python's headers, or else what mypyc makes would be for nothing."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    command = [*compiler, "-fsyntax-only", "-I", sysconfig.get_path("include"), "-x", "c", "-"]
    try:
        done = subprocess.run(command, input=b"#include <Python.h>\n", capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def make_extensions() -> list[Extension]:
    """Runs mypyc; returns the library, and an extension for each module."""
    from mypyc.build import mypycify

    extensions = mypycify([*MYPY, *LOOPS, *HOT_PATHS], group_name="ottla.wire.kernel", debug_level="0", multi_file=True)
    extensions[0].include_dirs.append("build/ottla/wire")  # where its headers are, by its name
    for extension in extensions:
        # Functions that stay inside the library can be inlined into each other: a third of the time for a record.
        extension.extra_compile_args = [*extension.extra_compile_args, "-fvisibility=hidden"]  # mypyc gives all the same list
    return extensions


extensions = []
if COMMANDS_THAT_COMPILE.intersection(sys.argv):
    if compiler_works():
        extensions = make_extensions()
    else:
        print(f"{UNCOMPILED}, because there is no C compiler, or it does not find Python's headers", file=sys.stderr)

setup(ext_modules=extensions, cmdclass={"build_ext": BuildSideBySide})
