"""The hash by which the cleaner's map knows a key: 124 bits, under a secret of the one cleaning. Compiled by mypyc.

The map holds hashes and not keys, so two keys of the same hash count as one, and the records of the one that comes first in the
log are lost. Kafka's map takes MD5. Two keys of the same MD5 can be made at will, and keys come from strangers. A secret that is
drawn when a cleaning begins, and forgotten with it, leaves nothing to prepare for, so a hash will do that is quick and whose
collisions can be counted.

A key is read as a number sequence: its size, then its bytes, three at a time. The sequence is taken as a polynomial, and its
values at four secret points, modulo the prime 2^31 - 1, are the hash. Two keys differ by a polynomial that is not zero, because
the size comes first. It has at most as many roots as its degree, which is the number of words. So for keys that were chosen
without knowing the points, and whatever else they are, the probability of a collision is at most (words / 2^30)^4: 2^-112 for
two keys of 12 bytes, 2^-98 for two of 128. Longer keys are first replaced by `hashlib.blake2b` under the same secret.

The points lie below 2^30, so that nothing needs more than 63 bits and one reduction a step is enough: a sum stays under
1.5 * 2^32, and its product with a point under 1.5 * 2^62. The result is the same compiled and uncompiled.
"""

from typing import Final

from mypy_extensions import i64

SEED_BITS: Final = 256
_PRIME: Final = 2147483647
_POINT_MASK: Final = 1073741823
_LONG: Final = 128
_LONG_HASH_BYTES: Final = 32


class KeyHash:
    """Hashes keys under the secret `seed`, a number of SEED_BITS bits that nobody else may know."""

    def __init__(self, seed: int) -> None:
        self._secret: bytes = seed.to_bytes(SEED_BITS // 8, "big")
        self._first: i64 = seed & _POINT_MASK
        self._second: i64 = (seed >> 64) & _POINT_MASK
        self._third: i64 = (seed >> 128) & _POINT_MASK
        self._fourth: i64 = (seed >> 192) & _POINT_MASK

    def hash_of(self, buf: bytes, at: i64, size: i64) -> tuple[i64, i64]:
        """Returns the hash of the key buf[at:at + size], which must lie inside `buf`, as two numbers of 62 bits."""
        if size <= _LONG:
            return self._values(buf, at, size)
        from hashlib import blake2b  # few keys are so long, and OpenSSL, which comes with it, takes milliseconds to load

        short: bytes = blake2b(buf[at : at + size], digest_size=_LONG_HASH_BYTES, key=self._secret).digest()
        return self._values(short, 0, _LONG_HASH_BYTES)

    def _values(self, buf: bytes, at: i64, size: i64) -> tuple[i64, i64]:
        first, second, third, fourth = self._first, self._second, self._third, self._fourth
        a: i64 = size
        b: i64 = size
        c: i64 = size
        d: i64 = size
        left: i64 = size
        while left > 0:
            word: i64 = buf[at] << 16
            if left > 1:
                word |= buf[at + 1] << 8
                if left > 2:
                    word |= buf[at + 2]
            at += 3
            left -= 3
            value: i64 = a * first + word
            a = (value & _PRIME) + (value >> 31)
            value = b * second + word
            b = (value & _PRIME) + (value >> 31)
            value = c * third + word
            c = (value & _PRIME) + (value >> 31)
            value = d * fourth + word
            d = (value & _PRIME) + (value >> 31)
        return (least(a) << 31) | least(b), (least(c) << 31) | least(d)


def least(value: i64) -> i64:
    """Returns `value`, which is not negative, modulo 2^31 - 1."""
    return value % _PRIME
