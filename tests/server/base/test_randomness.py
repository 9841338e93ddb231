"""Ids that are drawn by chance: their form, and that one seed gives the same ones again."""

from __future__ import annotations

import uuid
from random import Random, SystemRandom

from ottla.server.base.randomness import from_seed, from_system, random_uuid, random_uuid_text
from ottla.wire.primitives import uuid_to_text


def test_a_seed_gives_the_same_ids_again_and_another_seed_gives_others() -> None:
    first, again, other = from_seed(7), from_seed(7), from_seed(8)
    ids = [random_uuid(first) for _ in range(20)]
    assert ids == [random_uuid(again) for _ in range(20)]
    assert not set(ids) & {random_uuid(other) for _ in range(20)}


def test_a_running_broker_s_numbers_cannot_be_guessed() -> None:
    assert isinstance(from_system(), SystemRandom)


def test_uuids_of_kafka_are_of_version_4_and_good_on_a_command_line() -> None:
    made = [random_uuid(Random(seed)) for seed in range(500)]
    assert len(set(made)) == 500
    assert all(uuid.UUID(bytes=each).version == 4 and uuid.UUID(bytes=each).variant == uuid.RFC_4122 for each in made)
    assert not any(uuid_to_text(each).startswith("-") for each in made)


def test_a_uuid_that_would_begin_with_a_dash_is_drawn_again() -> None:
    class Dashing(Random):
        draws = 0

        def randbytes(self, n: int) -> bytes:
            self.draws += 1
            return bytes([62 << 2] * n) if self.draws < 3 else bytes(n)

    random = Dashing()
    assert uuid_to_text(random_uuid(random))[0] == "A"
    assert random.draws == 3


def test_uuids_as_text_are_written_as_java_writes_them() -> None:
    for seed in range(50):
        assert random_uuid_text(Random(seed)) == str(uuid.UUID(bytes=Random(seed).randbytes(16), version=4))
