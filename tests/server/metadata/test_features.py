"""Levels of features: how far they may go up and down, who has a say, and kraft.version, which is the log's."""

from __future__ import annotations

import pytest

from ottla.server.metadata.feature_levels import FORMATTED_FEATURES, SUPPORTED_FEATURES
from ottla.server.metadata.features import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE, update
from ottla.server.metadata.image import MetadataImage
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.internal.register_broker_record import BrokerFeature, RegisterBrokerRecord
from ottla.wire.messages.internal.register_controller_record import ControllerFeature, RegisterControllerRecord
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

SUPPORTED = {"metadata.version": (7, 33), "kraft.version": (0, 1), "x.version": (0, 5), "y.version": (0, 2)}
INVALID = ErrorCode.INVALID_UPDATE_VERSION


def test_the_levels_that_this_broker_supports_and_formats_with() -> None:
    """A level that is not fully supported would be offered to clients, and one too few would be refused to them."""
    assert SUPPORTED_FEATURES == {
        "metadata.version": (7, 33),
        "kraft.version": (0, 1),
        "transaction.version": (0, 2),
        "group.version": (0, 1),
        "share.version": (0, 2),
        "streams.version": (0, 1),
        "eligible.leader.replicas.version": (0, 1),
    }
    assert {
        name: highest for name, (_, highest) in SUPPORTED_FEATURES.items() if name in FORMATTED_FEATURES
    } == FORMATTED_FEATURES
    assert SUPPORTED_FEATURES.keys() - FORMATTED_FEATURES.keys() == {"metadata.version", "kraft.version"}


def an_image(metadata_version: int = 33) -> MetadataImage:
    """With this node registered, as Kafka does, and x at 3."""
    image = MetadataImage("cluster")
    image.apply(FeatureLevelRecord("metadata.version", metadata_version))
    image.apply(FeatureLevelRecord("x.version", 3))
    features = [BrokerFeature(name, *levels) for name, levels in SUPPORTED.items()]
    image.apply(RegisterBrokerRecord(broker_id=1, features=features))
    return image


def ask(image: MetadataImage, *wishes: tuple[str, int, int], validate_only: bool = False) -> int:
    keys = [FeatureUpdateKey(name, level, False, kind) for name, level, kind in wishes]
    records, _, answer = update(image, 1, SUPPORTED, 2, UpdateFeaturesRequest(1000, keys, validate_only))
    image.apply_all(records)
    if answer.error_code:
        assert (records, answer.results) == ([], [])
        assert answer.error_message is not None
        assert wishes[-1][0] in answer.error_message
    else:
        assert [(result.feature, result.error_code) for result in answer.results] == [(name, 0) for name, _, _ in wishes]
        assert answer.error_message is None
    return answer.error_code


@pytest.mark.parametrize(
    ("level", "kind", "becomes"),
    [
        (5, UPGRADE, 5),
        (3, UPGRADE, 3),
        (3, SAFE_DOWNGRADE, 3),
        (2, SAFE_DOWNGRADE, 2),
        (2, UNSAFE_DOWNGRADE, 2),
        (0, SAFE_DOWNGRADE, None),
        (6, UPGRADE, INVALID),
        (-1, UNSAFE_DOWNGRADE, INVALID),
        (2, UPGRADE, INVALID),
        (4, SAFE_DOWNGRADE, INVALID),
        (4, UNSAFE_DOWNGRADE, INVALID),
        (3, 0, INVALID),
        (3, 4, INVALID),
    ],
)
def test_one_feature(level: int, kind: int, becomes: int | None) -> None:
    image = an_image()
    code = ask(image, ("x.version", level, kind))
    assert code == (INVALID if becomes is INVALID else 0)
    assert image.finalized.get("x.version") == (3 if becomes is INVALID else becomes)


@pytest.mark.parametrize(("name", "level"), [("nope", 1), ("nope", 0), ("", 1)])
def test_what_nobody_knows(name: str, level: int) -> None:
    assert ask(an_image(), (name, level, UPGRADE)) == INVALID


def test_all_or_none() -> None:
    image = an_image()
    assert ask(image, ("x.version", 5, UPGRADE), ("y.version", 3, UPGRADE)) == INVALID
    assert image.finalized == {"metadata.version": 33, "x.version": 3}
    assert ask(image, ("x.version", 5, UPGRADE), ("y.version", 2, UPGRADE)) == 0
    assert image.finalized == {"metadata.version": 33, "x.version": 5, "y.version": 2}
    assert ask(image) == 0


def test_named_twice_the_later_level_counts() -> None:
    image = an_image()
    assert ask(image, ("x.version", 99, UPGRADE), ("x.version", 4, UPGRADE)) == 0
    assert image.finalized["x.version"] == 4


def test_only_checked() -> None:
    image = an_image()
    assert ask(image, ("x.version", 5, UPGRADE), ("kraft.version", 1, UPGRADE), validate_only=True) == 0
    assert ask(image, ("x.version", 6, UPGRADE), validate_only=True) == INVALID
    assert image.finalized["x.version"] == 3


def test_other_nodes_have_a_say() -> None:
    image = an_image()
    image.apply(RegisterBrokerRecord(broker_id=2, features=[BrokerFeature("x.version", 1, 4)], fenced=True))
    assert [ask(image, ("x.version", level, UPGRADE)) for level in (4, 5)] == [0, INVALID]
    assert ask(image, ("x.version", 0, UNSAFE_DOWNGRADE)) == INVALID
    assert ask(image, ("y.version", 1, UPGRADE)) == INVALID, "it does not know it at all"
    image.apply(RegisterControllerRecord(7, features=[ControllerFeature("x.version", 0, 3)]))
    assert ask(image, ("x.version", 4, UPGRADE)) == INVALID


@pytest.mark.parametrize(
    ("now", "level", "possible"),
    [
        (33, 32, False),
        (33, 7, False),
        (32, 31, False),
        (31, 30, True),
        (30, 29, False),
        (29, 23, True),
        (29, 22, False),
        (10, 8, True),
        (8, 7, False),
    ],
)
@pytest.mark.parametrize("kind", [SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
def test_metadata_version_goes_down_only_where_no_record_changed(now: int, level: int, possible: bool, kind: int) -> None:
    image = an_image(now)
    assert ask(image, ("metadata.version", level, kind)) == (0 if possible else INVALID)
    assert image.metadata_version == (level if possible else now)


def test_metadata_version_goes_up() -> None:
    image = an_image(7)
    assert ask(image, ("metadata.version", 33, UPGRADE)) == 0
    assert image.metadata_version == 33
    assert [ask(image, ("metadata.version", level, UPGRADE)) for level in (34, 6)] == [INVALID, INVALID]


@pytest.mark.parametrize(
    ("now", "level", "kind", "code", "raises"),
    [
        (0, 1, UPGRADE, 0, True),
        (0, 1, SAFE_DOWNGRADE, INVALID, False),
        (0, 0, UPGRADE, 0, False),
        (0, 0, SAFE_DOWNGRADE, 0, False),
        (1, 1, UPGRADE, 0, False),
        (1, 0, UPGRADE, INVALID, False),
        (1, 0, SAFE_DOWNGRADE, INVALID, False),
        (1, 0, UNSAFE_DOWNGRADE, INVALID, False),
        (1, 2, UPGRADE, INVALID, False),
    ],
)
def test_kraft_version_is_the_logs(now: int, level: int, kind: int, code: int, raises: bool) -> None:
    image = an_image()
    image.kraft_version = now
    keys = [FeatureUpdateKey("kraft.version", level, False, kind)]
    records, raised, answer = update(image, 1, SUPPORTED, 2, UpdateFeaturesRequest(0, keys))
    assert (records, raised, answer.error_code) == ([], raises, code)
