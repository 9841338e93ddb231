"""Requests about access rules (ACLs) that cannot be answered."""

from __future__ import annotations

from typing import Final

from ottla.server.base.errors import CloseConnection

UNKNOWN: Final = 0
"""The value of a resource type, pattern type, operation or permission that the client itself does not know."""


def check_elements(resource_type: int, pattern_type: int, operation: int, permission_type: int) -> None:
    """Raises CloseConnection if one of these is UNKNOWN, because Kafka's decoder refuses such a request. Undefined codes pass."""
    if UNKNOWN in (resource_type, pattern_type, operation, permission_type):
        raise CloseConnection("an access rule's resource type, pattern type, operation and permission may not be unknown (0)")
