"""Randomness as a parameter: one source for everything that a broker draws by chance.

Nothing in the server calls uuid4, os.urandom or the random module's own functions; it gets a Random as a parameter, as it gets a
Clock. A running broker has the system's generator, because nobody may be able to guess member ids and token ids. A test that
passes a seeded generator gets the same ids and the same jitter in every run.

A broker has one source, which all its rooms share. So one more draw in one place changes what is drawn everywhere later: tests
can compare two runs of the same code, but must not expect a certain id.
"""

from __future__ import annotations

from random import Random, SystemRandom

_DASH = 62
"""The value of the digit '-' in URL-safe base64."""


def from_system() -> Random:
    """Returns the operating system's generator, for brokers that serve clients."""
    return SystemRandom()


def from_seed(seed: int) -> Random:
    """Returns a generator that gives the same numbers for the same seed, for tests and simulations."""
    return Random(seed)


def random_uuid(random: Random) -> bytes:
    """Returns a random (version 4) uuid that can be an id in Kafka: not one that Kafka reserves (these are not of version 4), and
    not one whose base64 text begins with '-', because command lines would take that for an option."""
    while True:
        uuid = _version_4(random)
        if uuid[0] >> 2 != _DASH:
            return uuid


def random_uuid_text(random: Random) -> str:
    """Returns a random (version 4) uuid in the form of Java's UUID.toString, `xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx`."""
    text = _version_4(random).hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _version_4(random: Random) -> bytes:
    """Returns 16 random bytes, with the version and the variant of RFC 9562 in their places."""
    octets = bytearray(random.randbytes(16))
    octets[6] = octets[6] & 0x0F | 0x40
    octets[8] = octets[8] & 0x3F | 0x80
    return bytes(octets)
