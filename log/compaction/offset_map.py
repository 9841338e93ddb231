"""The cleaner's map of key -> offset of its latest record. Compiled by mypyc.

A log may have more keys than fit into memory as objects, so the map keeps no objects: a key is represented by its hash
(`log.compaction.key_hash`), a slot is three integers, and the caller chooses how many bytes there are for slots. Slots are probed
by double hashing over a prime number of them, which visits every slot and stays quick when nine tenths are taken.

Offsets of a log only grow, so the last one put for a key is the latest. Only `clear` takes anything out.
"""

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from ottla.log.compaction.key_hash import KeyHash

SLOT_BYTES: Final = 24
NOT_FOUND: Final = -1


def largest_prime(upto: i64) -> i64:
    """Returns the largest prime that is not above `upto`, which is at least 2."""
    while upto > 2:
        divisor: i64 = 2
        while divisor * divisor <= upto and upto % divisor != 0:
            divisor += 1
        if divisor * divisor > upto:
            break
        upto -= 1
    return upto


class OffsetMap:
    """Maps keys to offsets. Of the `slots` that fit `memory_bytes`, `limit` may be used; `latest_offset` is the offset up to
    which the log was put in, -1 if nothing was. Keys are hashed under the secret `seed` (`KeyHash`)."""

    def __init__(self, memory_bytes: int, load_factor: float, seed: int) -> None:
        assert memory_bytes >= 2 * SLOT_BYTES, "a map of no slots"
        self.slots: i64 = largest_prime(memory_bytes // SLOT_BYTES)
        self.limit: i64 = max(1, min(int(int(self.slots) * load_factor), int(self.slots)))
        self._hash: KeyHash = KeyHash(seed)
        self.clear()

    def clear(self) -> None:
        """Forgets all keys."""
        # A slot is the two numbers of a hash and the offset plus one: it is empty where that is 0.
        self._table: vec[i64] = vec[i64]([0] * (self.slots * 3))
        self.entries: i64 = 0
        self.latest_offset: i64 = NOT_FOUND

    def __len__(self) -> int:
        return int(self.entries)

    def utilization(self) -> float:
        """Returns the share of the slots that is taken, from 0 to 1."""
        return int(self.entries) / int(self.slots)

    def find(self, high: i64, low: i64) -> i64:
        """Returns where the slot of this hash begins, or else the empty slot that it would take; -1 if there is neither."""
        table = self._table
        slots: i64 = self.slots
        slot: i64 = high % slots
        step: i64 = 0
        probes: i64 = slots
        while probes > 0:
            at: i64 = slot * 3
            if table[at + 2] == 0 or (table[at] == high and table[at + 1] == low):
                return at
            if step == 0:
                step = 1 + low % (slots - 1) if slots > 2 else 1
            slot += step
            if slot >= slots:
                slot -= slots
            probes -= 1
        return -1

    def put(self, buf: bytes, at: i64, size: i64, offset: i64) -> bool:
        """Stores the offset of the key buf[at:at + size], which lies inside `buf`. Returns False and stores nothing if the key is
        new and the map holds `limit` keys already."""
        high, low = self._hash.hash_of(buf, at, size)
        slot = self.find(high, low)
        if slot < 0:
            return False
        table = self._table
        if table[slot + 2] == 0:
            if self.entries >= self.limit:
                return False
            self.entries += 1
            table[slot] = high
            table[slot + 1] = low
        table[slot + 2] = offset + 1
        return True

    def get(self, buf: bytes, at: i64, size: i64) -> i64:
        """Returns the offset that was put last for the key buf[at:at + size], which lies inside `buf`, or NOT_FOUND."""
        high, low = self._hash.hash_of(buf, at, size)
        slot = self.find(high, low)
        if slot < 0:
            return NOT_FOUND
        return self._table[slot + 2] - 1
