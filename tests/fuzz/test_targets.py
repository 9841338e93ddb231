"""The targets of the fuzzer: what they begin with holds, and a fault that is planted behind any of their promises is noticed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from ottla.log.compaction import cleaner
from ottla.log.compaction.cleaner import Cleaner
from ottla.log.compaction.filtered_batch import FilteredBatch
from ottla.log.config_def import ConfigError
from ottla.log.index import OffsetIndex
from ottla.log.management.manager import LogManager
from ottla.log.opening.search import BatchSearch
from ottla.log.validate import validate_for_append
from ottla.security import der, jaas, jks
from ottla.server.group import shard as group_shard
from ottla.server.metadata import snapshot
from ottla.server.metadata.image_records import Frozen
from ottla.server.security import scram
from ottla.server.security.mechanism import Done
from ottla.server.security.plain import Plain
from ottla.server.security.signed_tokens import Signed
from ottla.server.share_state.shard import ShareStateShard
from ottla.server.txn import shard as transaction_shard
from ottla.wire import compression
from ottla.wire.compression import GZIP
from ottla.wire.messages import metadata
from ottla.wire.records import decode_records
from scripts.fuzz import names
from tests.fuzz.kept import LONGEST_INPUT
from tests.uncompiled import uncompiled

MOST_SEED_BYTES = 64 * 1024


def target(name: str) -> ModuleType:
    return importlib.import_module(f"tests.fuzz.targets.{name}")


@pytest.mark.parametrize("name", names())
def test_what_a_target_begins_with_holds(name: str) -> None:
    module = target(name)
    seeds = list(module.seeds())
    assert len(seeds) > 5
    assert max(map(len, seeds)) <= LONGEST_INPUT
    assert sum(map(len, seeds)) < MOST_SEED_BYTES
    for seed in seeds:
        module.check(seed)
        module.check(seed[: len(seed) // 2])
    module.check(b"")


def test_what_is_no_record_may_claim_to_be_too_large_one_later() -> None:
    """The pieces of a section that is garbage begin anywhere."""
    begin = "02050204224d1860408238000000ef80f8fffdff026b6c76616c75652006001d4068020201"
    end = "42001f0242002e1f0442002e1f0642002e1f0842002e1f0a33002550200202680100000000"
    target("codecs").check(bytes.fromhex(begin + end))


def test_an_unclean_start_may_cut_a_log_where_offsets_go_back_within_a_segment() -> None:
    """Before that it is read as it is, because a clean stop is believed."""
    data = (
        "000000cc006400000000000000000000005800000001025f3641ba0010000000020000018bcfe568000000018bcfe56802000000000000"
        "00070000000000000000000318000000ffff026b0a76616c75650018000202026b0a76616c75650018000404026b0a76616c7565000064"
        "0000000000000000000000580000000102ffc52dfb7a1000000002004e00000000000000090000004200000001020a4acd980030000000"
        "000000018bcfe568000000018bcfe5680000000000000000070000ffffffff000000012000000008000000000c000021000001000a0a30"
        "0a310a74203020360a0b0a300a310a74203020330a04043800012e8d69ae00000001000000000000000700000000000800000000000000"
        "08000000020000018bcfe56802ffffffff0000000000000000"
    )
    target("log_directory").check(bytes.fromhex(data))


@pytest.mark.parametrize("name", names())
def test_a_target_says_what_it_promises(name: str) -> None:
    assert "input is" in (target(name).__doc__ or "")


def broken(*arguments: Any, **more: Any) -> Any:
    raise KeyError("planted")


Plant = Callable[[pytest.MonkeyPatch], None]


def check_all(module: ModuleType, inputs: list[bytes]) -> None:
    for data in inputs:
        module.check(data)


def replaced(place: str, name: str, by: Any) -> Plant:
    return lambda monkeypatch: monkeypatch.setattr(target(place), name, by)


def item(table: Any, key: Any, by: Any) -> Plant:
    return lambda monkeypatch: monkeypatch.setitem(table, key, by)


def method(kind: type | ModuleType, name: str, by: Any) -> Plant:
    return lambda monkeypatch: monkeypatch.setattr(kind, name, by)


COMPILED = {"GroupShard": group_shard, "TransactionShard": transaction_shard}
"""Classes that setup.py compiles, in which nothing can be replaced, with their modules."""


def from_source(name: str) -> type:
    """Returns such a class made of its source."""
    kind: type = getattr(uncompiled(COMPILED[name]), name)
    return kind


def compiled_method(place: str, kind: str, name: str, by: Any) -> Plant:
    """Plants a fault in a method of such a class: the target is given the class of the source, with the fault in it."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        faulty = from_source(kind)
        monkeypatch.setattr(faulty, name, by)
        monkeypatch.setattr(target(place), kind, faulty)

    return plant


real_gunzip = compression._DECOMPRESS[GZIP]


def with_a_byte_more(data: Any, max_bytes: int) -> Iterator[bytes]:
    yield from real_gunzip(data, max_bytes)
    yield b"?"


def in_one_piece(data: Any, max_bytes: int) -> Iterator[bytes]:
    yield b"".join(real_gunzip(data, max_bytes))


def unbounded(data: Any, max_bytes: int) -> Iterator[bytes]:
    yield from real_gunzip(data, 1 << 40)


def with_another_end(*arguments: Any, **more: Any) -> Any:
    valid = validate_for_append(*arguments, **more)
    whole = b"".join(valid.tail)
    valid.tail = [whole[:-1] + bytes([whole[-1] ^ 1])]
    return valid


def forgetful(manager: LogManager, clean: bool = True, broker_epoch: int = -1) -> None:
    for log in manager.logs.values():
        manager._disk.write_bytes(log.segments.first.path(".log"), b"")


def with_nothing_left(batch: Any, header: Any, obsolete: bool, rules: Any) -> FilteredBatch:
    return FilteredBatch([], -1, 1, 0, 0)


def showing_the_password(*arguments: Any) -> Any:
    raise ConfigError("ssl.keystore.password: store-secret does not open it")


real_records = Frozen.records


def without_the_last(frozen: Frozen) -> Iterator[Any]:
    return iter(list(real_records(frozen))[:-1])


PLANTED = {
    "a request raises something else": ("requests", item(metadata.DECODE_REQUEST, 13, broken)),
    "a request is written as nothing": ("requests", item(metadata.ENCODE_REQUEST, 13, lambda message, out: None)),
    "elements are not counted": ("requests", replaced("requests", "count_items", lambda layout, buf, pos, most: (0, len(buf)))),
    "a response raises something else": ("responses", item(metadata.DECODE_RESPONSE, 13, broken)),
    "a response is written as nothing": ("responses", item(metadata.ENCODE_RESPONSE, 13, lambda message, out: None)),
    "a codec gives a byte more": ("codecs", item(compression._DECOMPRESS, GZIP, with_a_byte_more)),
    "a codec gives all at once": ("codecs", item(compression._DECOMPRESS, GZIP, in_one_piece)),
    "a codec knows no bound": ("codecs", item(compression._DECOMPRESS, GZIP, unbounded)),
    "a codec raises something else": ("codecs", item(compression._DECOMPRESS, GZIP, broken)),
    "record pieces are missing": ("codecs", replaced("codecs", "record_pieces", lambda *_: iter([]))),
    "a record is missing": ("batches", replaced("batches", "decode_records", lambda *given: decode_records(*given)[:-1])),
    "a checked batch is not sound": ("batches", replaced("batches", "validate_for_append", with_another_end)),
    "a check raises something else": ("batches", replaced("batches", "validate_for_append", broken)),
    "a cleaning raises something else": ("cleaning", method(Cleaner, "groups", broken)),
    "a cleaning loses what it should keep": ("cleaning", method(cleaner, "filter_batch", with_nothing_left)),
    "find finds nothing": ("scan", replaced("scan", "find", lambda *_: None)),
    "a walk ends early": ("scan", replaced("scan", "walk_batches", lambda *_: iter([]))),
    "a search finds nothing": ("scan", method(BatchSearch, "next_sound", lambda search, start: None)),
    "an opening raises something else": ("log_directory", method(LogManager, "open_all", broken)),
    "a stop loses the log": ("log_directory", method(LogManager, "close", forgetful)),
    "a follower raises something else": ("log_directory", replaced("log_directory", "append_as_follower", broken)),
    "an index is written as nothing": ("small_files", method(OffsetIndex, "encode", lambda index: b"")),
    "a name raises something else": ("small_files", replaced("small_files", "parse_future_name", broken)),
    "a record raises something else": ("metadata_log", replaced("metadata_log", "decode_value", broken)),
    "a snapshot misses a record": ("metadata_log", method(Frozen, "records", without_the_last)),
    "a snapshot raises something else": ("metadata_log", method(snapshot, "read", broken)),
    "a group is not replayed": ("coordinators", compiled_method("coordinators", "GroupShard", "replay", broken)),
    "a marker is not replayed": ("coordinators", compiled_method("coordinators", "GroupShard", "end_transaction", broken)),
    "a transaction is not replayed": ("coordinators", compiled_method("coordinators", "TransactionShard", "replay", broken)),
    "share state is not replayed": ("coordinators", method(ShareStateShard, "replay", broken)),
    "metrics raise something else": ("payloads", replaced("payloads", "points", broken)),
    "a text raises something else": ("payloads", replaced("payloads", "parse_key", broken)),
    "any password is right": ("logins", method(Plain, "step", lambda login, token: Done("User:alice"))),
    "any proof is right": ("logins", method(scram, "proves_password", lambda *_: True)),
    "a token never ends": ("logins", method(Signed, "_check_times", lambda checks, claims: 1 << 50)),
    "a client raises something else": ("logins", replaced("logins", "log_in", broken)),
    "a set of keys raises something else": ("logins", replaced("logins", "parse_keys", broken)),
    "a login module raises something else": ("logins", method(jaas, "parse_file", broken)),
    "a number in DER raises something else": ("key_files", method(der, "dotted", broken)),
    "a key in JKS raises something else": ("key_files", method(jks, "unprotect", broken)),
    "a keystore raises something else": ("key_files", replaced("key_files", "load_identity", broken)),
    "a message shows a password": ("key_files", replaced("key_files", "load_identity", showing_the_password)),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, plant = PLANTED[name]
    module = target(place)
    seeds = list(module.seeds())
    plant(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        check_all(module, seeds)


@pytest.mark.parametrize("name", COMPILED)
def test_what_a_fault_is_planted_in_is_none_by_itself(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, faultless = target("coordinators"), from_source(name)
    assert faultless is not getattr(module, name)
    monkeypatch.setattr(module, name, faultless)
    check_all(module, list(module.seeds()))


def test_every_target_has_planted_faults() -> None:
    assert {place for place, _ in PLANTED.values()} == set(names())
