"""Timestamps for records. Not a fixed date: retention goes by record time, and old records are gone at its next pass."""

from __future__ import annotations

import time
from typing import Final

TODAY_MS: Final = int(time.time()) // 86_400 * 86_400_000
"""Midnight (UTC) before this run: the same in all workers, and younger than any default retention."""
