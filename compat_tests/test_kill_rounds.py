"""kill -9 under load, three times, and everything that was acknowledged is there. scripts/kill_rounds.py says what is asked, and
runs as many rounds as one likes; here both brokers go through the same three.
"""

from __future__ import annotations

from collections.abc import Callable

from compat_tests.kill_rounds import Rounds
from compat_tests.reference.kafka import BrokerProcess


def test_nothing_acknowledged_is_lost_by_kills(fresh_broker: Callable[..., BrokerProcess]) -> None:
    rounds = Rounds(fresh_broker(), seed=11)
    rounds.prepare()
    for number in (1, 2, 3):
        rounds.play(number)
    promises = rounds.promises
    assert rounds.produced > 100
    assert any(promises.transactions.values())
    assert promises.committed_offset > 0
    assert len(promises.topics) > 2
