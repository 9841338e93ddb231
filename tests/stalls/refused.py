"""The long requests that the broker refuses as a whole in every way that the sweep (sweep.py) asks them, and why.

What such a request would cost if it were carried out is not known from the sweep. A name is that of an API, or of one of its
lists.
"""

from __future__ import annotations

from typing import Final

ALWAYS_REFUSED: Final[dict[str, str]] = {
    "JoinGroup.protocols": "a member has at most a hundred protocols",
    "SyncGroup.assignments": "the member is not known; only the leader of a generation that is being made sends assignments",
    "CreatePartitions.topics.assignments": "the topic has more partitions than are asked for; assigned ones are CreateTopics'",
    "CreateDelegationToken.renewers": "a plain listener gives no tokens",
    "DescribeDelegationToken.owners": "a plain listener gives no tokens",
    "IncrementalAlterConfigs.resources.configs": "a resource may have a setting once, and no resource has thousands of settings",
    "DescribeClientQuotas.components": "each kind of name may be asked about once",
    "AlterClientQuotas.entries.ops": "an entity may have each of four quotas once",
    "UpdateFeatures.feature_updates": "each feature may be named once, and there are six",
    "ListConfigResources.resource_types": "there are five types of resources, and others are refused",
    "AddRaftVoter.listeners": "another cluster is meant",
    "ReadShareGroupState": "the group's state is not there, so that every partition of it is refused",
    "WriteShareGroupState": "the group's state is not there, so that every partition of it is refused",
    "StreamsGroupHeartbeat.topology.subtopologies.source_topic_regex": "source topics have to be named",
    "StreamsGroupTopologyDescriptionUpdate": "it is always refused: keeping descriptions needs a plugin, a Java class",
}
"""The reasons, by the API or its list."""
