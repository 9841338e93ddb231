"""What the broker's settings are for, in our words: for DescribeConfigs and the documentation. Loaded at the first question."""

from __future__ import annotations

from typing import Final

DOCS: Final[dict[str, str]] = {
    "node.id": "The number of this node, which no other node of the cluster has.",
}
