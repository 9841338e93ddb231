"""Guards enforce the rights that handlers declare: each cuts what is refused out of a request, and completes its answer.

So the handlers, which do what is left, know nothing of rights, but for the few that ask for themselves (`Request.ask`): their
state outlives the request, as in a fetch session, of which a partition may be refused now and granted later; or only they find
out what to ask about, such as the owners of tokens, the topics that a pattern matches, and those that a topology lacks. A guard
is loaded with the first request of its API, and only where there is an authorizer (link.py).

Two rules hold in all of them. Rights come before existence, so that nobody learns what exists; only topic ids, which cannot be
guessed, are looked up first. And what is listed without being named is left out, not refused.
"""

from __future__ import annotations

from typing import Final

_MODULES: Final = {
    "records": "produce list_offsets offset_for_leader_epoch delete_records describe_producers",
    "topics": "metadata describe_topic_partitions create_topics delete_topics create_partitions",
    "configs": "describe_configs alter_configs incremental_alter_configs describe_cluster",
    "groups": (
        "find_coordinator join_group sync_group heartbeat leave_group list_groups describe_groups delete_groups"
        " consumer_group_describe share_group_describe streams_group_describe"
    ),
    "members": (
        "consumer_group_heartbeat share_group_heartbeat streams_group_heartbeat streams_group_topology_description_update"
        " share_fetch share_acknowledge"
    ),
    "offsets": "offset_commit offset_fetch offset_delete txn_offset_commit",
    "share_offsets": "describe_share_group_offsets alter_share_group_offsets delete_share_group_offsets",
    "transactions": ("init_producer_id add_partitions_to_txn add_offsets_to_txn end_txn describe_transactions list_transactions"),
}

GUARD_MODULES: Final = {api: module for module, apis in _MODULES.items() for api in apis.split()}
"""The module of this package that has the guard of an API, which is a function of the API's name. APIs that need one right for
the whole request are in whole.py."""
