"""AlterClientQuotas: which quotas may be set for whom, and which records come of it."""

from __future__ import annotations

import asyncio
import math

import pytest

from ottla.server.base.network import OsNetwork
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.operation import MAX_RECORDS, Refused
from ottla.server.metadata.quotas import alter, entity_of, quotas_of, unknown_hosts
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, OpData, RequestEntityData, RequestEntryData
from ottla.wire.messages.internal.client_quota_record import ClientQuotaRecord, EntityData
from tests.fakes import NotingNetwork
from tests.server.metadata.support import planned

Part = tuple[str, str | None]
PRODUCE, FETCH, SHARE, CHANGES, CONNECTIONS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
ALICE = (("user", "alice"),)
REFUSED = ErrorCode.INVALID_REQUEST


def entry(parts: tuple[Part, ...], **values: float | None) -> RequestEntryData:
    """None removes."""
    ops = [OpData(key, 0.0 if value is None else value, value is None) for key, value in values.items()]
    return RequestEntryData([RequestEntityData(*part) for part in parts], ops)


def asked(
    image: MetadataImage, *entries: RequestEntryData, validate_only: bool = False, unknown: tuple[str, ...] = ()
) -> list[int]:
    """The codes of the answers; what was done is applied."""
    outcome = planned(alter(image, AlterClientQuotasRequest(list(entries), validate_only), unknown))
    image.apply_all(outcome.records)
    for answer in outcome.answer.entries:
        assert bool(answer.error_message) == bool(answer.error_code)
    return [answer.error_code for answer in outcome.answer.entries]


@pytest.fixture
def image() -> MetadataImage:
    return MetadataImage("cluster")


def test_quotas_are_set_changed_and_removed(image: MetadataImage) -> None:
    both = (("user", None), ("client-id", "c"))
    assert not image.has_quotas
    assert asked(image, entry(ALICE, producer_byte_rate=10.0, request_percentage=0.5), entry(both, consumer_byte_rate=7.0)) == [
        0,
        0,
    ]
    assert asked(image, entry(ALICE, producer_byte_rate=20.0)) == [0]
    assert quotas_of(image) == {ALICE: {PRODUCE: 20.0, SHARE: 0.5}, (("client-id", "c"), ("user", None)): {FETCH: 7.0}}
    assert asked(image, entry(ALICE, producer_byte_rate=None), entry(both, consumer_byte_rate=None)) == [0, 0]
    assert quotas_of(image) == {ALICE: {SHARE: 0.5}}
    assert image.has_quotas
    assert asked(image, entry(ALICE, request_percentage=None)) == [0]
    assert not image.has_quotas


def test_what_is_so_already_makes_no_record(image: MetadataImage) -> None:
    asked(image, entry(ALICE, producer_byte_rate=10.0))
    same = entry((("user", "alice"),), producer_byte_rate=10.0, consumer_byte_rate=None, nonsense=None)
    assert planned(alter(image, AlterClientQuotasRequest([same]))).records == []


def test_the_records_are_kafkas(image: MetadataImage) -> None:
    asked(image, entry(ALICE, producer_byte_rate=10.0))
    request = AlterClientQuotasRequest([entry(ALICE, producer_byte_rate=None, request_percentage=1.5)])
    alice = [EntityData("user", "alice")]
    assert planned(alter(image, request)).records == [
        ClientQuotaRecord(alice, PRODUCE, 0.0, True),
        ClientQuotaRecord(alice, SHARE, 1.5, False),
    ]


def test_validate_only_changes_nothing(image: MetadataImage) -> None:
    wrong = entry((("user", "bob"),), producer_byte_rate=-1.0)
    assert asked(image, entry(ALICE, producer_byte_rate=10.0), wrong, validate_only=True) == [0, REFUSED]
    assert quotas_of(image) == {}


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (("zzz", "a"),),
        (("User", "a"),),
        (("user", ""),),
        (("client-id", ""),),
        (("user", "a"), ("client-id", "")),
        (("user", "a"), ("zzz", None)),
    ],
)
def test_entities_that_there_are_not(image: MetadataImage, parts: tuple[Part, ...]) -> None:
    assert asked(image, entry(parts, producer_byte_rate=1.0)) == [REFUSED]
    assert asked(image, entry(parts)) == [REFUSED]
    assert quotas_of(image) == {}


@pytest.mark.parametrize("name", ["127.0.0.1", "::1", None])
def test_addresses(image: MetadataImage, name: str | None) -> None:
    ip = (("ip", name),)
    assert asked(image, entry(ip, connection_creation_rate=5.0)) == [0]
    assert quotas_of(image) == {ip: {CONNECTIONS: 5.0}}
    for other in ("user", "client-id"):
        assert asked(image, entry((*ip, (other, "a")), connection_creation_rate=5.0)) == [REFUSED]


def test_hosts_that_do_not_resolve(image: MetadataImage) -> None:
    request = AlterClientQuotasRequest([entry((("ip", name),)) for name in ("no..host", "", "127.0.0.1", "::1", None)])
    unknown = asyncio.run(unknown_hosts(request, OsNetwork()))
    assert unknown == {"no..host"}
    network, hosts = (
        NotingNetwork(known="10.0.0.1"),
        AlterClientQuotasRequest([entry((("ip", name),)) for name in ("known", "::1", "no")]),
    )
    assert asyncio.run(unknown_hosts(hosts, network)) == {"no"}
    assert sorted(network.asked) == [("address_of", "known"), ("address_of", "no")]
    assert asked(image, entry((("ip", "no..host"),), connection_creation_rate=1.0), unknown=("no..host",)) == [REFUSED]


@pytest.mark.parametrize(
    ("parts", "key", "value", "code"),
    [
        (ALICE, PRODUCE, 2.0**63, 0),
        (ALICE, PRODUCE, 2.0**63 + 2048, REFUSED),
        (ALICE, PRODUCE, 0.5, REFUSED),
        (ALICE, PRODUCE, 1.0000005, 0),  # a millionth is no fraction
        (ALICE, FETCH, 1.5, REFUSED),
        (ALICE, SHARE, 0.001, 0),
        (ALICE, SHARE, 1e300, 0),
        (ALICE, CHANGES, 0.1, 0),
        (ALICE, SHARE, 0.0, REFUSED),
        (ALICE, SHARE, -1.0, REFUSED),
        (ALICE, SHARE, math.nan, REFUSED),
        (ALICE, SHARE, math.inf, REFUSED),
        (ALICE, CONNECTIONS, 1.0, REFUSED),
        (ALICE, "nonsense", 1.0, REFUSED),
        ((("ip", None),), CONNECTIONS, 2.0**31 - 1, 0),
        ((("ip", None),), CONNECTIONS, 2.0**31, REFUSED),
        ((("ip", None),), CONNECTIONS, 1.5, REFUSED),
        ((("ip", None),), PRODUCE, 1.0, REFUSED),
    ],
)
def test_values(image: MetadataImage, parts: tuple[Part, ...], key: str, value: float, code: int) -> None:
    assert asked(image, entry(parts, **{key: value})) == [code]
    assert quotas_of(image) == ({} if code else {entity_of(parts): {key: value}})


def test_an_entity_is_changed_as_a_whole_or_not_at_all(image: MetadataImage) -> None:
    bob = (("user", "bob"),)
    assert asked(image, entry(ALICE, producer_byte_rate=1.0, request_percentage=-1.0), entry(bob, producer_byte_rate=1.0)) == [
        REFUSED,
        0,
    ]
    assert quotas_of(image) == {bob: {PRODUCE: 1.0}}


def test_an_entity_named_twice_is_refused_after_the_first_was_done(image: MetadataImage) -> None:
    one, two = (("user", "a"), ("client-id", "c")), (("client-id", "c"), ("user", "a"))
    assert asked(image, entry(one, producer_byte_rate=1.0), entry(two, producer_byte_rate=2.0)) == [REFUSED]
    assert quotas_of(image) == {entity_of(one): {PRODUCE: 1.0}}


def test_a_quota_named_twice_is_refused(image: MetadataImage) -> None:
    twice = entry(ALICE)
    twice.ops = [OpData(PRODUCE, 1.0), OpData(FETCH, 1.0), OpData(PRODUCE, 0.0, True)]
    assert asked(image, twice) == [REFUSED]
    assert quotas_of(image) == {}


def test_a_kind_of_name_twice_is_the_later_one(image: MetadataImage) -> None:
    assert asked(image, entry((("user", "a"), ("user", "b")), producer_byte_rate=1.0)) == [0]
    assert quotas_of(image) == {(("user", "b"),): {PRODUCE: 1.0}}


def test_more_changes_than_a_batch_takes_are_none(image: MetadataImage) -> None:
    entries = [entry((("user", str(n)),), producer_byte_rate=1.0) for n in range(MAX_RECORDS + 1)]
    with pytest.raises(Refused) as refused:
        asked(image, *entries)
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    assert quotas_of(image) == {}
    assert set(asked(image, *entries[1:])) == {0}
