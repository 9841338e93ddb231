"""AlterConfigs replaces all settings of a resource at once, so that a setting that the request does not name goes back to its
default.

Everything else is as in IncrementalAlterConfigs, whose checks it shares (configs.py). Only settings that stay or are new are
checked; those that go may be anything. Loggers cannot be changed this way.
"""

from __future__ import annotations

from functools import partial

from ottla.server.metadata.configs import alter_each, change, check_once, check_resource
from ottla.server.metadata.controller_settings import ControllerSettings
from ottla.server.metadata.eligible import clearing_records
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
    """Carries out AlterConfigs. If `validate_only`, the outcome has no records."""
    made, refusals = alter_each(request.resources, partial(_replace, image, settings))
    answers = [
        AlterConfigsResourceResponse(*refusal, resource.resource_type, resource.resource_name)
        for resource, refusal in zip(request.resources, refusals, strict=True)
    ]
    done = [] if request.validate_only else [*made, *clearing_records(image, made)]
    return Outcome(done, AlterConfigsResponse(responses=answers))


def _replace(image: MetadataImage, settings: ControllerSettings, resource: AlterConfigsResource) -> list[ConfigRecord]:
    """Returns the records of one resource. Raises Refused with 42 INVALID_REQUEST, 40 INVALID_CONFIG, 17 INVALID_TOPIC_EXCEPTION
    or 3 UNKNOWN_TOPIC_OR_PARTITION."""
    kind, name = resource.resource_type, resource.resource_name
    check_once(config.name for config in resource.configs)
    nulls = [config.name for config in resource.configs if config.value is None]
    if nulls:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Settings need a value: {', '.join(nulls)}.")
    check_resource(settings, kind, name)
    gone = dict.fromkeys(image.config_of(kind, name))
    return change(image, settings, kind, name, {**gone, **{config.name: config.value for config in resource.configs}})
