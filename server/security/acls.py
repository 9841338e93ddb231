"""Requests about access rules (ACLs) that cannot be answered, and the answer of a broker without an authorizer.

Such a broker refuses every request about rules with 54 SECURITY_DISABLED, whatever the rule says.
"""

from __future__ import annotations

from typing import Final

from ottla.server.base.errors import CloseConnection

UNKNOWN: Final = 0
"""The value of a resource type, pattern type, operation or permission that the client itself does not know."""
DISABLED: Final = "There are no access rules, because this broker has no authorizer."


def check_elements(resource_type: int, pattern_type: int, operation: int, permission_type: int) -> None:
    """Raises CloseConnection if one of these is UNKNOWN, because Kafka's decoder refuses such a request. Undefined codes pass."""
    if UNKNOWN in (resource_type, pattern_type, operation, permission_type):
        raise CloseConnection("an access rule's resource type, pattern type, operation and permission may not be unknown (0)")
