"""AlterConfigs: all settings of a resource at once, so that what the request does not name goes back to its default.

Everything else is as in IncrementalAlterConfigs, whose checks these are (configs.py). Only the names of the settings that stay or
come are looked at; what goes may be anything. Loggers cannot be changed this way.
"""

from __future__ import annotations

from functools import partial

from ottla.server.metadata.configs import change, check_once, check_resource, each
from ottla.server.metadata.controller_settings import ControllerSettings
from ottla.server.metadata.eligible import cleared
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.operation import Outcome, Refused
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ottla.wire.messages.internal.config_record import ConfigRecord


def replace(image: MetadataImage, settings: ControllerSettings, request: AlterConfigsRequest) -> Outcome[AlterConfigsResponse]:
    """AlterConfigs; no records where `validate_only`."""
    made, refusals = each(request.resources, partial(_replace, image, settings))
    answers = [
        AlterConfigsResourceResponse(*refusal, resource.resource_type, resource.resource_name)
        for resource, refusal in zip(request.resources, refusals, strict=True)
    ]
    done = [] if request.validate_only else [*made, *cleared(image, made)]
    return Outcome(done, AlterConfigsResponse(responses=answers))


def _replace(image: MetadataImage, settings: ControllerSettings, resource: AlterConfigsResource) -> list[ConfigRecord]:
    """One resource. Raises Refused: 42 INVALID_REQUEST, 40 INVALID_CONFIG, 17, 3."""
    kind, name = resource.resource_type, resource.resource_name
    check_once(config.name for config in resource.configs)
    nulls = [config.name for config in resource.configs if config.value is None]
    if nulls:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Settings need a value: {', '.join(nulls)}.")
    check_resource(settings, kind, name)
    gone = dict.fromkeys(image.config_of(kind, name))
    return change(image, settings, kind, name, {**gone, **{config.name: config.value for config in resource.configs}})
