"""AlterConfigs replaces all settings of a resource at once, so that a setting that the request does not name goes back to its
default.

Everything else is as in IncrementalAlterConfigs, whose checks it shares (configs.py). Only settings that stay or are new are
checked; those that go may be anything. Loggers cannot be changed this way.
"""

from __future__ import annotations

from ottla.server.metadata.configs import AlterationInParts, change, check_names, check_resource
from ottla.server.metadata.controller_settings import ControllerSettings
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.operation import Refused
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ottla.wire.messages.internal.config_record import ConfigRecord


class Replacement(AlterationInParts[AlterConfigsResource]):
    """AlterConfigs."""

    def __init__(self, image: MetadataImage, settings: ControllerSettings, request: AlterConfigsRequest) -> None:
        super().__init__(image, request.resources, validate_only=request.validate_only)
        self._settings = settings
        self._request = request

    def alter(self, resource: AlterConfigsResource) -> list[ConfigRecord]:
        return _replace(self._image, self._settings, resource)

    def answer(self) -> AlterConfigsResponse:
        """Returns the answer once the operation is over."""
        return AlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(*refusal, resource.resource_type, resource.resource_name)
                for resource, refusal in zip(self._request.resources, self.results, strict=True)
            ]
        )


def _replace(image: MetadataImage, settings: ControllerSettings, resource: AlterConfigsResource) -> list[ConfigRecord]:
    """Returns the records of one resource. Raises Refused with 42 INVALID_REQUEST, 40 INVALID_CONFIG, 17 INVALID_TOPIC_EXCEPTION
    or 3 UNKNOWN_TOPIC_OR_PARTITION."""
    kind, name = resource.resource_type, resource.resource_name
    check_names([config.name for config in resource.configs])
    nulls = [config.name for config in resource.configs if config.value is None]
    if nulls:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Settings need a value: {', '.join(nulls)}.")
    check_resource(settings, kind, name)
    gone = dict.fromkeys(image.config_of(kind, name))
    return change(image, settings, kind, name, {**gone, **{config.name: config.value for config in resource.configs}})
