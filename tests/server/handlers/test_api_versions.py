"""ApiVersions at every version: the list of what is served, features that we have, and who is turned away."""

from __future__ import annotations

import pytest

from ottla.server.handlers import served
from ottla.server.handlers.api_versions import LONGEST_KEPT, TELEMETRY, handle
from ottla.wire.api import APIS
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.api_versions import API_KEY, ApiVersionsRequest
from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.internal.register_broker_record import BrokerFeature, RegisterBrokerRecord
from tests.fakes import CLUSTER_ID, NODE_ID, MemoryBroker
from tests.server.handlers.data_calls import call, versions

PRODUCE = 0


@pytest.fixture
def broker() -> MemoryBroker:
    broker = MemoryBroker({})
    features = [BrokerFeature("metadata.version", 7, 33), BrokerFeature("transaction.version", 0, 2)]
    features.append(BrokerFeature("unheard.of.version", 0, 1))
    broker.image.apply(RegisterBrokerRecord(broker_id=NODE_ID, broker_epoch=5, features=features))
    broker.image.apply(FeatureLevelRecord("metadata.version", 33))
    broker.image.apply(FeatureLevelRecord("unheard.of.version", 1))
    broker.image.apply(FeatureLevelRecord("transaction.version", 2), 123)
    return broker


@pytest.mark.parametrize("version", versions("api_versions"))
def test_what_is_served_is_advertised(broker: MemoryBroker, version: int) -> None:
    answer = call(broker, "api_versions", version, ApiVersionsRequest("client", "1.0"))
    assert answer.error_code == ErrorCode.NONE
    ranges = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
    assert list(ranges) == [key for key in sorted(served()) if key not in TELEMETRY]
    assert served().keys() >= TELEMETRY, "telemetry is served to who asks"
    wanted = MemoryBroker({}, {"ottla.client.metrics": "true"})
    answer = call(wanted, "api_versions", version, ApiVersionsRequest("client", "1.0"))
    assert [key.api_key for key in answer.api_keys] == sorted(served()), "and advertised where it is wanted"
    for key, (lowest, highest) in ranges.items():
        assert (lowest, highest) == (0 if key == PRODUCE else APIS[key].min_version, APIS[key].max_version)


@pytest.mark.parametrize("version", range(3, 6))
def test_only_features_that_we_have_whatever_the_metadata_says(broker: MemoryBroker, version: int) -> None:
    answer = call(broker, "api_versions", version, ApiVersionsRequest("client", "1.0"))
    supported = [(each.name, each.min_version, each.max_version) for each in answer.supported_features]
    assert supported == [("metadata.version", 7, 33), ("transaction.version", 0, 2)][: 1 if version == 3 else 2]
    finalized = [(each.name, each.min_version_level, each.max_version_level) for each in answer.finalized_features]
    assert finalized == [("metadata.version", 33, 33), ("transaction.version", 2, 2)]
    broker.image.kraft_version = 1
    answer = call(broker, "api_versions", version, ApiVersionsRequest("client", "1.0"))
    assert [each.name for each in answer.finalized_features] == ["kraft.version", "metadata.version", "transaction.version"]
    assert answer.finalized_features_epoch == 123


@pytest.mark.parametrize(
    ("name", "version", "good"),
    [
        ("a", "1", True),
        ("apache-kafka-java", "4.4.0-rc.1", True),
        ("", "1", False),
        ("a", "", False),
        ("bad name!", "1", False),
        ("-x", "1", False),
        ("x.", "1", False),
        ("ok\n", "1", False),
        ("ok", "a b", False),
    ],
)
def test_software_names(broker: MemoryBroker, name: str, version: str, good: bool) -> None:
    answer = call(broker, "api_versions", 3, ApiVersionsRequest(name, version))
    assert answer.error_code == (ErrorCode.NONE if good else ErrorCode.INVALID_REQUEST)
    assert bool(answer.api_keys) is good


@pytest.mark.parametrize(("length", "kept"), [(LONGEST_KEPT, LONGEST_KEPT), (LONGEST_KEPT + 1, LONGEST_KEPT)])
def test_only_so_much_of_a_name_is_kept(broker: MemoryBroker, length: int, kept: int) -> None:
    request = broker.request(3, API_KEY)
    assert handle(ApiVersionsRequest("n" * length, "1" * length), request).error_code == ErrorCode.NONE
    assert request.session.client_software == ("n" * kept, "1" * kept)


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "code"),
    [
        (None, -1, ErrorCode.NONE),
        (CLUSTER_ID, NODE_ID, ErrorCode.NONE),
        (CLUSTER_ID, 5, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER_ID, -2, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("A" * 22, NODE_ID, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER_ID, -1, ErrorCode.INVALID_REQUEST),
        ("A" * 22, -1, ErrorCode.INVALID_REQUEST),
        (None, NODE_ID, ErrorCode.INVALID_REQUEST),
        (None, -2, ErrorCode.INVALID_REQUEST),
    ],
)
def test_clients_of_another_broker_get_an_error(
    broker: MemoryBroker, cluster_id: str | None, node_id: int, code: ErrorCode
) -> None:
    """As Kafka 4.4.0 answered each of these."""
    answer = call(broker, "api_versions", 5, ApiVersionsRequest("client", "1.0", cluster_id, node_id))
    assert answer.error_code == code
    assert bool(answer.api_keys) is (code is ErrorCode.NONE)
