"""The operations that a client may do on a resource, as bit fields in answers: bit n is AclOperation n.

READ 3, WRITE 4, CREATE 5, DELETE 6, ALTER 7, DESCRIBE 8, CLUSTER_ACTION 9, DESCRIBE_CONFIGS 10, ALTER_CONFIGS 11,
IDEMPOTENT_WRITE 12. Without an authorizer everybody may do every operation.
"""

from __future__ import annotations

from typing import Final

TOPIC_OPERATIONS: Final = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS: Final = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
GROUP_OPERATIONS: Final = sum(1 << operation for operation in (3, 6, 8, 10, 11))
UNASKED: Final = -(2**31)
"""The value in an answer if the client did not ask for the operations."""
