"""Access rules (ACLs) while there is no authorizer to keep them: what their three APIs answer, and what no answer is possible to.

A broker without an authorizer refuses every request about rules with 54 SECURITY_DISABLED, whatever the rule says.
"""

from __future__ import annotations

from typing import Final

from ottla.server.base.errors import CloseConnection

UNKNOWN: Final = 0
"""Of a resource type, pattern type, operation or permission: the client itself does not know which."""
DISABLED: Final = "No Authorizer is configured."
DISABLED_HERE: Final = "No Authorizer is configured on the broker"
"""Two texts for one thing, as `kafka-acls` prints them: the controller's, and that of a broker that is to list the rules."""


def check_elements(resource_type: int, pattern_type: int, operation: int, permission_type: int) -> None:
    """Raises CloseConnection where one is UNKNOWN: Kafka's decoder takes no such request. Codes that nobody knows are let
    through."""
    if UNKNOWN in (resource_type, pattern_type, operation, permission_type):
        raise CloseConnection("an access rule's resource type, pattern type, operation and permission may not be unknown (0)")
