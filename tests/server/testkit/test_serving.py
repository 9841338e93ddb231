"""The kit around a broker that the command serves: what chance brings there."""

from __future__ import annotations

import logging
import os

import pytest

from ottla.server.settings.broker_config import BrokerConfig
from ottla.server.testkit.serving import UnderTest
from ottla.testing import Broker
from tests.in_loop import in_loop
from tests.memdisk import MemDisk


async def chances(**settings: str) -> tuple[str, float]:
    """The cluster id, which the broker draws, and a number that the kit draws."""
    texts = {"log.dirs": "/data", "listeners": "PLAINTEXT://127.0.0.1:0", "ottla.test.port": "0", "ottla.test.disk": "memory"}
    config, unknown = BrokerConfig.from_mapping({**texts, **settings})
    assert not unknown
    under_test = UnderTest(config, MemDisk(lambda: 0), os.link)
    await under_test.lives.start()
    try:
        return under_test.lives.broker.cluster_id, under_test.kit.random.random()
    finally:
        await under_test.lives.stop()


@in_loop
async def test_the_same_seed_brings_the_same(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    found = await chances(**{"ottla.test.seed": "7"})
    assert "its chances have the seed 7" in caplog.text
    assert await chances(**{"ottla.test.seed": "7"}) == found
    others = [await chances(**{"ottla.test.seed": "8"}), await chances(), await chances()]
    assert len({each for pair in (found, *others) for each in pair}) == 8


def test_in_python_the_setting_is_the_same_as_the_seed() -> None:
    ids = []
    for broker in (Broker(seed=7), Broker(ottla_test_seed=7), Broker(seed=7, ottla_test_seed=8), Broker(ottla_test_seed=8)):
        with broker:
            ids.append(broker.cluster_id)
    assert ids[0] == ids[1] == ids[2] != ids[3]
