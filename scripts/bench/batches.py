"""The costs of a batch before it is written: header, CRC, the kernel compiled and uncompiled, all of validation.

    python -m scripts.bench.batches

Prints the best of five runs of each, in nanoseconds.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

from ottla.log.config import LogConfig
from ottla.log.producers import ProducerStates
from ottla.log.validate import BatchRules, validate_for_append
from ottla.wire import kernel
from ottla.wire.batch import check_crc, read_header, stamp
from ottla.wire.compression import NAMES
from ottla.wire.records import Record, build_batch, encode_records

NOW_MS = 1_700_000_000_000
KERNEL = Path(__file__).resolve().parents[2] / "wire" / "kernel.py"


def nanoseconds(run: Callable[[], object], times: int) -> float:
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter_ns()
        for _ in range(times):
            run()
        best = min(best, time.perf_counter_ns() - started)
    return best / times


def uncompiled() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kernel_uncompiled", KERNEL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def records(count: int, size: int) -> list[Record]:
    return [Record(0, NOW_MS + index, b"key %05d" % index, bytes(size)) for index in range(count)]


def bench_kernel() -> None:
    for size in (10, 100, 1000):
        section = encode_records(records(10_000, size), NOW_MS)
        for name, module, times in (("imported", kernel, 20), ("uncompiled", uncompiled(), 1)):

            def run(module: ModuleType = module, section: bytes = section) -> object:
                low, high = kernel.MIN_INT64, kernel.MAX_INT64
                return module.check_records(section, 0, len(section), 10_000, NOW_MS, low, high, False, high)

            print(f"kernel {name:10}, {size:4} B values {nanoseconds(run, times) / 10_000:9.1f} a record")


def bench_batch() -> None:
    rules = BatchRules(LogConfig.from_overrides({}, None))
    small = memoryview(bytearray(build_batch(records(1, 100))))
    header = read_header(small)
    idempotent = read_header(build_batch(records(1, 100), producer_id=1, producer_epoch=0, base_sequence=0))
    states = ProducerStates()
    print(f"read_header                  {nanoseconds(lambda: read_header(small), 50_000):9.0f}")
    print(f"check_crc, 100 B             {nanoseconds(lambda: check_crc(small, header), 50_000):9.0f}")
    print(f"stamp                        {nanoseconds(lambda: stamp(header, 5, 0), 50_000):9.0f}")
    print(f"producer update              {nanoseconds(lambda: states.update(idempotent, 5), 20_000):9.0f}")
    for name, data, times in (
        ("one record of 100 B", small, 20_000),
        ("160 records of 100 B", memoryview(bytearray(build_batch(records(160, 100)))), 2_000),
        ("one record of 1 MB", memoryview(bytearray(build_batch(records(1, 1_000_000)))), 200),
        *((f"160 records, {codec}", memoryview(build_batch(records(160, 100), codec=n)), 500) for n, codec in NAMES.items() if n),
    ):
        print(f"validate, {name:19}{nanoseconds(partial(validate_for_append, data, rules, NOW_MS), times):9.0f}")


if __name__ == "__main__":
    print(f"kernel: {kernel.__file__}")
    bench_kernel()
    bench_batch()
