"""What administrators change now and then: credentials, tokens, feature levels, who belongs to the cluster.

The half of StandaloneController (standalone.py) that no broker needs to serve clients; each operation works as described there,
and its rules are imported with the first one.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, TypeVar

from ottla.server.metadata.controller import Controller

if TYPE_CHECKING:
    from random import Random

    from ottla.server.clock import Clock
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.metadata.metadata_log import MetadataLog
    from ottla.server.metadata.operation import Outcome
    from ottla.server.metadata.settings import BrokerSettings
    from ottla.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
    )
    from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
    from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
    from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

_Answer = TypeVar("_Answer")


class Administration(Controller):
    """Its attributes are those of StandaloneController."""

    image: MetadataImage
    _log: MetadataLog
    _settings: BrokerSettings
    _clock: Clock
    _random: Random

    @abstractmethod
    def _carry_out(self, outcome: Outcome[_Answer]) -> _Answer:
        """Makes the records durable and true; then the answer may be given. StorageError."""

    async def alter_user_scram_credentials(self, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
        from ottla.server.metadata import scram

        return self._carry_out(scram.alter(self.image, request))

    async def create_delegation_token(
        self, request: CreateDelegationTokenRequest, requester: str
    ) -> CreateDelegationTokenResponse:
        from ottla.server.metadata import tokens

        settings, now_ms = tokens.settings_of(self._settings.broker_values), self._clock.now_ms()
        principal = tokens.principal_of(requester)
        return self._carry_out(tokens.create(self.image, settings, self._random, now_ms, principal, request))

    async def renew_delegation_token(self, request: RenewDelegationTokenRequest, requester: str) -> RenewDelegationTokenResponse:
        from ottla.server.metadata import tokens

        settings, now_ms = tokens.settings_of(self._settings.broker_values), self._clock.now_ms()
        return self._carry_out(tokens.renew(self.image, settings, now_ms, tokens.principal_of(requester), request))

    async def expire_delegation_token(
        self, request: ExpireDelegationTokenRequest, requester: str
    ) -> ExpireDelegationTokenResponse:
        from ottla.server.metadata import tokens

        settings, now_ms = tokens.settings_of(self._settings.broker_values), self._clock.now_ms()
        return self._carry_out(tokens.expire(self.image, settings, now_ms, tokens.principal_of(requester), request))

    def expire_tokens(self) -> None:
        """Removes the delegation tokens whose time is over. StorageError."""
        from ottla.server.metadata import tokens
        from ottla.server.metadata.operation import Outcome

        self._carry_out(Outcome(tokens.expired(self.image, self._clock.now_ms()), None))
