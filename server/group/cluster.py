"""The cluster as groups see it: its topics, the racks of its brokers, and the settings of groups.

These are typing protocols, so that groups are tested without any metadata. A running broker passes metadata/image.py's
MetadataImage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Topic(Protocol):
    """A topic as groups see it: metadata/image.py's TopicImage."""

    name: str
    topic_id: bytes

    @property
    def partitions(self) -> Mapping[int, Any]:
        """Returns the partitions by index. The values are metadata/image.py's PartitionImage, of which groups read `replicas`."""
        ...


class Cluster(Protocol):
    """The cluster as groups see it: metadata/image.py's MetadataImage."""

    @property
    def topics(self) -> Mapping[str, Topic]: ...

    @property
    def topics_by_id(self) -> Mapping[bytes, Topic]: ...

    @property
    def brokers(self) -> Mapping[int, Any]:
        """Returns the brokers by id. The values are metadata/image.py's BrokerImage, of which groups read `rack`."""
        ...

    @property
    def highest_offset(self) -> int:
        """Returns the offset of the last metadata record that was applied, which serves as the cluster's version."""
        ...

    def config_of(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """Returns the settings of a resource itself, as text by name. The resource type of groups is 32 (GROUP)."""
        ...
