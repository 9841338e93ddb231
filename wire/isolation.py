"""The isolation levels of Fetch and ListOffsets (KIP-98): whether a reader sees transactions before they are committed."""

from __future__ import annotations

from typing import Final

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
