"""The credentials of SCRAM as the metadata has them now: those of users, and those that are made of delegation tokens.

A user's credential is a record. A delegation token's has to be made: its password is its HMAC, from which a hash that is slow on
purpose makes the keys, at the token's first login. They are kept as long as the token is.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from ottla.log.config_def import Secret
from ottla.server.base.clock import Clock
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.scram import MECHANISMS, MIN_ITERATIONS, credential
from ottla.server.metadata.tokens import hmac_of, is_expired
from ottla.server.security.scram import Credential, TokenCredential
from ottla.wire.messages.internal.delegation_token_record import DelegationTokenRecord
from ottla.wire.scram import DIGESTS, Keys, make_keys, salt_password

MOST_KEPT: Final = 10_000
"""The most credentials of tokens that are kept; the one that was made first goes when there are more."""
_NUMBERS: Final = {name: number for number, name in MECHANISMS.items()}


class Credentials:
    """Looks credentials up in `image`, which is None until the broker has one. `secret_key` is `delegation.token.secret.key`,
    None where there are no tokens."""

    def __init__(self, secret_key: Secret | None, clock: Clock, random: Random) -> None:
        self.image: MetadataImage | None = None
        self._secret_key = secret_key
        self._clock = clock
        self._random = random
        self._of_tokens: dict[tuple[str, str], Credential] = {}  # by token id and mechanism

    def users(self, mechanism: str) -> Callable[[str], Credential | None]:
        """Returns the look-up of users by name for one mechanism."""
        return partial(self._of_user, mechanism)

    def tokens(self, mechanism: str) -> Callable[[str], TokenCredential | None]:
        """Returns the look-up of delegation tokens by id for one mechanism."""
        return partial(self._of_token, mechanism)

    def _of_user(self, mechanism: str, name: str) -> Credential | None:
        record = None if self.image is None else credential(self.image, name, _NUMBERS[mechanism])
        if record is None:
            return None
        return Credential(record.salt, record.iterations, Keys(record.stored_key, record.server_key))

    def _of_token(self, mechanism: str, token_id: str) -> TokenCredential | None:
        token = None if self.image is None else self.image.kept.get(("token", token_id))
        if self._secret_key is None or not isinstance(token, DelegationTokenRecord):
            return None
        if is_expired(token, self._clock.now_ms()):
            return None
        made = self._of_tokens.get((token_id, mechanism)) or self._make(mechanism, token_id, self._secret_key)
        return TokenCredential(made, token.owner, min(token.expiration_timestamp, token.max_timestamp))

    def _make(self, mechanism: str, token_id: str, secret_key: Secret) -> Credential:
        digest, salt = DIGESTS[mechanism], self._random.randbytes(16)
        password = base64.b64encode(hmac_of(token_id, secret_key)).decode()
        made = Credential(salt, MIN_ITERATIONS, make_keys(digest, salt_password(digest, password, salt, MIN_ITERATIONS)))
        self._of_tokens[token_id, mechanism] = made
        if len(self._of_tokens) > MOST_KEPT:
            del self._of_tokens[next(iter(self._of_tokens))]
        return made
