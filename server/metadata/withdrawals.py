"""`Withdrawals`, the interface by which a broker has the controllers elect somebody else for a partition whose replica is damaged
here, and keep this one out until it is whole again.

A leader cannot take itself out of the in-sync replicas (AlterPartition refuses that with INVALID_REQUEST), and Kafka reports
failures by log directory, which would take all other partitions along. But the directory of each replica is assigned by itself
(AssignReplicasToDirs, KIP-858), and a replica in a directory that its broker has not registered is one whose disk has failed: it
leaves the in-sync replicas, another of them leads, and it is not elected, not even from the eligible leader replicas, until its
directory is a registered one again. Meanwhile it may follow and be in sync. So the metadata keep what is withdrawn, through
restarts as well. Each of this was tried with Apache Kafka 4.4.0; its reserved id for a lost directory is taken there for one that
works.

server/quorum/directories.py implements it, and server/replication/repairs.py decides.
"""

from __future__ import annotations

from typing import Final, Protocol

WITHDRAWN: Final = b"ottla.damaged..."
"""The id of the directory, which no broker registers, that withdrawn replicas are assigned to."""


class Withdrawals(Protocol):
    """Tells the controllers of damaged replicas."""

    def are_possible(self) -> bool:
        """Returns whether the cluster's metadata.version has a place for directories."""
        ...

    def withdraw(self, topic_id: bytes, partition: int) -> None:
        """Has this broker's replica taken out of the in-sync replicas, and not elected any more. If no other replica is in sync,
        the partition has no leader then."""
        ...

    def restore(self, topic_id: bytes, partition: int, directory_id: bytes) -> None:
        """Ends that, because the replica is whole again, or nobody else is left. `directory_id` is where it lies. If the
        partition has no leader, asking a second time has one elected."""
        ...
