"""wire/kernel.py, each test compiled and uncompiled: the same source, loaded once as the extension and once as text."""

from __future__ import annotations

import random
import shutil
import sysconfig
from importlib.machinery import EXTENSION_SUFFIXES
from types import ModuleType

import pytest

from ottla.wire import kernel as imported
from ottla.wire.records import Record, encode_records, varint
from tests.uncompiled import uncompiled

LOW, HIGH = imported.MIN_INT64, imported.MAX_INT64
Verdict = tuple[int, int, int, list[tuple[int, int, int]] | None]
"""The result of check_records: its code, the largest timestamp and the index of its record, and the bad records."""


UNCOMPILED = uncompiled(imported)


@pytest.fixture(params=["compiled", "uncompiled"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    return imported if request.param == "compiled" else UNCOMPILED


def has_compiler() -> bool:
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    return shutil.which(compiler) is not None


def test_the_imported_module_is_compiled_wherever_there_is_a_compiler() -> None:
    compiled = imported.__file__.endswith(tuple(EXTENSION_SUFFIXES))
    assert compiled or not has_compiler(), f"{imported.__file__}: build it with pip install -e ."
    assert str(UNCOMPILED.__file__).endswith("/wire/kernel.py")


def section(*records: Record, base: int = 1000) -> bytes:
    return encode_records(records, base)


def body(*fields: bytes) -> bytes:
    joined = b"\0" + b"".join(fields)
    return varint(len(joined)) + joined


def check(
    kernel: ModuleType, data: bytes, count: int, *, base: int = 1000, bounds: tuple[int, int] = (LOW, HIGH), keys: bool = False
) -> Verdict:
    verdict: Verdict = kernel.check_records(data, 0, len(data), count, base, *bounds, keys, HIGH)
    return verdict


GOOD = section(
    Record(0, 1000, b"k", b"v"),
    Record(1, 1500, None, None, [("h", None), ("", b"")]),
    Record(2, 1500, b"", b"x" * 300),
)
PLAIN = [varint(0), varint(0), varint(-1), varint(1), b"v", varint(0)]  # delta, offset, null key, value, no headers


def test_well_formed_records_pass_and_give_the_first_largest_timestamp(kernel: ModuleType) -> None:
    assert check(kernel, GOOD, 3) == (kernel.OK, 1500, 1, None)


def test_timestamps_below_none_give_none(kernel: ModuleType) -> None:
    assert check(kernel, section(Record(0, -7, None, b"v")), 1) == (kernel.OK, -1, -1, None)


@pytest.mark.parametrize(
    ("data", "count", "reason"),
    [
        (GOOD, 2, "MORE_RECORDS"),
        (GOOD, 4, "FEWER_RECORDS"),
        (GOOD + b"\0", 3, "MORE_RECORDS"),
        (GOOD[:-1], 3, "BAD_LENGTH"),
        (b"", 1, "FEWER_RECORDS"),
        (varint(-1), 1, "BAD_LENGTH"),
        (varint(0), 1, "BAD_LENGTH"),
        (varint(1) + b"\0", 1, "BAD_VARINT"),
        (b"\x80\x80\x80\x80\x80\x00" + GOOD, 3, "BAD_VARINT"),  # six bytes
        (b"\x80", 1, "BAD_VARINT"),
        (body(b"\x80" * 10 + b"\0", *PLAIN[1:]), 1, "BAD_VARINT"),  # eleven bytes
        (body(*PLAIN[:2], varint(9), b"k", *PLAIN[3:]), 1, "BAD_FIELD"),
        (body(*PLAIN[:3], varint(100), b"v", varint(0)), 1, "BAD_FIELD"),
        (body(*PLAIN[:5], varint(-1)), 1, "BAD_HEADER"),
        (body(*PLAIN[:5], varint(2**31 - 1)), 1, "BAD_HEADER"),
        (body(*PLAIN[:5], varint(1), varint(-1), varint(0)), 1, "BAD_HEADER"),  # null header key
        (body(*PLAIN[:5], varint(1), varint(5), b"h", varint(-1)), 1, "BAD_HEADER"),
        (body(*PLAIN[:5], varint(1), varint(1), b"h", varint(50)), 1, "BAD_HEADER"),
        (body(*PLAIN[:5], varint(1), varint(1), b"h"), 1, "BAD_HEADER"),
        (body(*PLAIN, b"left over"), 1, "BAD_BODY"),
        (body(varint(0), varint(1), *PLAIN[2:]), 1, "BAD_OFFSET_DELTA"),
        (section(Record(0, 1000, None, b"v")) * 2, 2, "BAD_OFFSET_DELTA"),
    ],
)
def test_malformed_records_are_named(kernel: ModuleType, data: bytes, count: int, reason: str) -> None:
    code = getattr(kernel, reason)
    assert check(kernel, data, count)[0] == code
    assert kernel.REASONS[code]


def test_varints_longer_than_needed_pass_as_in_kafka(kernel: ModuleType) -> None:
    """Five bytes for an int32 and ten for an int64 are read; what does not fit into the number is dropped."""
    long_zero = b"\x80\x80\x80\x80\x00"
    assert check(kernel, body(b"\x80" * 9 + b"\x00", long_zero, *PLAIN[2:]), 1)[0] == kernel.OK
    assert check(kernel, body(b"\x80" * 9 + b"\x7e", b"\x80\x80\x80\x80\x70", *PLAIN[2:]), 1)[:2] == (kernel.OK, 1000)


def test_any_negative_length_of_key_or_value_is_null(kernel: ModuleType) -> None:
    data = body(varint(0), varint(0), varint(-7), varint(-2), varint(0))
    assert check(kernel, data, 1)[0] == kernel.OK
    (span,) = kernel.spans(data, 0, len(data))
    assert (span[5], span[7]) == (-1, -1)


def test_keys_may_be_required(kernel: ModuleType) -> None:
    assert check(kernel, GOOD, 3, keys=True)[3] == [(1, kernel.KEY_MISSING, 1500)]


def test_timestamps_are_checked_and_minus_one_means_none(kernel: ModuleType) -> None:
    late = section(
        Record(0, 1000, b"k", b"v"), Record(1, -1, b"k", b"v"), Record(2, 2001, b"k", b"v"), Record(3, 999, b"k", b"v")
    )
    _, most, index, bad = check(kernel, late, 4, bounds=(1000, 2000))
    assert (most, index) == (2001, 2)
    assert bad == [(2, kernel.TIMESTAMP_OUT_OF_RANGE, 2001), (3, kernel.TIMESTAMP_OUT_OF_RANGE, 999)]


def test_a_missing_key_is_named_before_a_bad_timestamp(kernel: ModuleType) -> None:
    assert check(kernel, section(Record(0, 5, None, b"v")), 1, bounds=(1000, 2000), keys=True)[3] == [(0, kernel.KEY_MISSING, 5)]


def test_the_list_of_bad_records_is_bounded(kernel: ModuleType) -> None:
    data = section(*(Record(i, 5, b"", b"") for i in range(kernel.MAX_BAD_RECORDS + 10)))
    code, _, _, bad = check(kernel, data, kernel.MAX_BAD_RECORDS + 10, bounds=(1000, 2000))
    assert code == kernel.OK
    assert bad is not None
    assert len(bad) == kernel.MAX_BAD_RECORDS


@pytest.mark.parametrize(
    ("base", "delta", "total"),
    [(HIGH, 1, LOW), (LOW, -1, HIGH), (HIGH, HIGH, -2), (LOW, LOW, 0), (5, -7, -2), (LOW, HIGH, -1), (HIGH, LOW, -1)],
)
def test_timestamps_wrap_like_64_bit_registers(kernel: ModuleType, base: int, delta: int, total: int) -> None:
    assert kernel.wrapping_add(base, delta) == total


def test_a_record_may_be_bounded(kernel: ModuleType) -> None:
    def code(limit: int) -> int:
        verdict: Verdict = kernel.check_records(GOOD, 0, len(GOOD), 3, 1000, LOW, HIGH, False, limit)
        return verdict[0]

    largest = 1 + 2 + 1 + 1 + 2 + 300 + 1
    assert code(largest) == kernel.OK
    assert code(largest - 1) == kernel.TOO_LARGE


def test_only_the_given_range_is_read(kernel: ModuleType) -> None:
    framed = b"\xff" * 7 + GOOD + b"\xff" * 9
    assert kernel.check_records(framed, 7, 7 + len(GOOD), 3, 1000, LOW, HIGH, False, HIGH)[0] == kernel.OK
    assert kernel.check_records(GOOD, 0, len(GOOD) + 1, 3, 1000, LOW, HIGH, False, HIGH)[0] == kernel.BAD_LENGTH
    assert kernel.check_records(GOOD, -1, len(GOOD), 3, 1000, LOW, HIGH, False, HIGH)[0] == kernel.BAD_LENGTH
    assert kernel.first_at_or_after(GOOD, 0, len(GOOD) + 1, 1000, 0) == (-1, -1)
    with pytest.raises(ValueError):
        kernel.spans(GOOD, 0, len(GOOD) + 1)


def test_the_first_record_at_or_after_a_timestamp(kernel: ModuleType) -> None:
    data = section(*(Record(i, stamp, None, b"v") for i, stamp in enumerate((1000, 3000, 2000, 4000))))
    found = [kernel.first_at_or_after(data, 0, len(data), 1000, target) for target in (0, 1001, 3000, 3001, 4001)]
    assert found == [(0, 1000), (1, 3000), (1, 3000), (3, 4000), (-1, -1)]
    assert kernel.first_at_or_after(data[:-3], 0, len(data) - 3, 1000, 4000) == (-1, -1)


def test_a_search_may_begin_at_an_offset(kernel: ModuleType) -> None:
    data = section(*(Record(i, stamp, None, b"v") for i, stamp in enumerate((1000, 3000, 2000, 4000))))
    found = [kernel.first_at_or_after(data, 0, len(data), 1000, 2000, least) for least in range(5)]
    assert found == [(1, 3000), (1, 3000), (2, 2000), (3, 4000), (-1, -1)]


def test_whole_records_are_counted(kernel: ModuleType) -> None:
    ends = [0, *(span[1] for span in kernel.spans(GOOD, 0, len(GOOD)))]
    for end in range(len(GOOD) + 1):
        count, position, needed = kernel.whole_records(GOOD, 0, end)
        assert (count, position) == max((number, at) for number, at in enumerate(ends) if at <= end)
        begun = GOOD[position:end]
        known = kernel.varint(begun, 0, len(begun))[1] > 0
        assert needed == (ends[count + 1] - position if known else 0)


def test_where_no_record_can_be_all_counts_as_whole(kernel: ModuleType) -> None:
    for noise in (b"\x00" * 9, varint(-5) + b"xx", b"\x80" * 5):
        count, position, needed = kernel.whole_records(GOOD + noise, 0, len(GOOD + noise))
        assert (count, position, needed) == (3, len(GOOD + noise), 0)
    assert kernel.whole_records(GOOD, 0, len(GOOD) + 1)[0] == 0
    assert kernel.whole_records(b"\x80" * 4, 0, 4) == (0, 0, 0)


def test_a_batch_may_be_checked_in_pieces(kernel: ModuleType) -> None:
    data = section(*(Record(i, 1000 + i * 7 % 10, b"k" if i % 3 else None, b"v") for i in range(30)))
    borders = [span[1] for span in kernel.spans(data, 0, len(data))]
    whole = kernel.check_records(data, 0, len(data), 30, 1000, 1001, 1008, True, HIGH)
    for border, seen in ((borders[0], 1), (borders[13], 14), (borders[28], 29)):
        first = kernel.check_records(data, 0, border, 30, 1000, 1001, 1008, True, HIGH)
        second = kernel.check_records(data, border, len(data), 30, 1000, 1001, 1008, True, HIGH, seen)
        assert (first[0], first[2], second[0]) == (kernel.FEWER_RECORDS, seen, kernel.OK)
        assert max(first[1], second[1]) == whole[1]
        assert [*(first[3] or ()), *(second[3] or ())] == whole[3]


def test_spans_point_at_every_part(kernel: ModuleType) -> None:
    spans = kernel.spans(GOOD, 0, len(GOOD))
    assert [(span[2], span[3]) for span in spans] == [(0, 0), (500, 1), (500, 2)]
    assert [GOOD[at : at + size] if size >= 0 else None for *_, at, size, _, _ in spans] == [b"k", None, b""]
    assert [GOOD[at : at + size] if size >= 0 else None for *_, at, size in spans] == [b"v", None, b"x" * 300]
    assert spans[0][0] == 0
    assert [span[1] for span in spans[:-1]] == [span[0] for span in spans[1:]]
    headers = kernel.header_spans(GOOD, spans[1][6], spans[1][1])
    assert [(GOOD[k : k + ks], None if vs < 0 else GOOD[v : v + vs]) for k, ks, v, vs in headers] == [(b"h", None), (b"", b"")]


def test_spans_of_malformed_records_are_a_value_error(kernel: ModuleType) -> None:
    for end in range(1, len(GOOD)):
        if end not in {span[1] for span in kernel.spans(GOOD, 0, len(GOOD))}:
            with pytest.raises(ValueError):
                kernel.spans(GOOD, 0, end)
    with pytest.raises(ValueError):
        kernel.header_spans(GOOD, 0, 3)


def test_only_bytes_are_taken_by_the_compiled_module() -> None:
    with pytest.raises(TypeError):
        imported.check_records(memoryview(GOOD), 0, len(GOOD), 3, 1000, LOW, HIGH, False, HIGH)  # type: ignore[arg-type]  # no bytes


def test_hostile_bytes_give_the_same_answer_compiled_and_uncompiled() -> None:
    """Ten thousand damaged sections: no exception but spans' ValueError, and no difference."""
    seeded = random.Random(20)

    def spans(module: ModuleType, data: bytes) -> object:
        try:
            found = module.spans(data, 0, len(data))
            return found, [module.header_spans(data, at + max(size, 0), end) for _, end, _, _, _, _, at, size in found]
        except ValueError as refused:
            return str(refused)

    codes = set()
    for _ in range(10_000):
        data = bytearray(seeded.choice((GOOD, seeded.randbytes(30))))
        for _ in range(seeded.randrange(4)):
            data[seeded.randrange(len(data))] = seeded.choice((0, 1, 127, 128, 255, seeded.randrange(256)))
        damaged = bytes(data[: seeded.randrange(len(data)) if seeded.random() < 0.3 else len(data)])
        base = seeded.choice((0, 1000, LOW, HIGH))
        count = seeded.choice((0, 1, 3, 3, 3, -5, 2**31 - 1))
        answer = check(imported, damaged, count, base=base, bounds=(0, 2000), keys=True)
        assert answer == check(UNCOMPILED, damaged, count, base=base, bounds=(0, 2000), keys=True)
        codes.add(answer[0])
        assert spans(imported, damaged) == spans(UNCOMPILED, damaged)
        target = seeded.randrange(3000)
        found = imported.first_at_or_after(damaged, 0, len(damaged), base, target)
        assert found == UNCOMPILED.first_at_or_after(damaged, 0, len(damaged), base, target)
    assert codes == set(imported.REASONS) - {imported.TOO_LARGE}
