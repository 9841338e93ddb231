"""`Finder`: who leads the quorum of the controllers, as far as a node that is no voter can know, and whom it asks next.

The node is told some controllers: the voters with their ids (`controller.quorum.voters`), or only addresses
(`controller.quorum.bootstrap.servers`). Any controller answers a Fetch of the metadata with the epoch and the leader that it
knows, and the leader's address (KIP-595, KIP-853). From then on the leader is asked, until it is silent or another is named.

| leader | it is left for | when |
|---|---|---|
| unknown | known | an answer names one, whose address is known or comes with it |
| known | known | an answer names another one of a newer epoch |
| known | unknown | an answer has a newer epoch without a leader (an election is going on), or the leader did not answer |

Epochs never go back: what an answer says of an older epoch is what a controller believes that has not heard of the newer one.
This also holds after the leader did not answer; the same leader of the same epoch may then be named again.

While the leader is unknown, the controllers that the node was told are asked in turn, in an order that chance decides, so that a
cluster's nodes do not all ask the same one. A leader that did not answer is among them, if it was told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

NOBODY: Final = -1
"""The id by which an answer says that it knows no leader."""
NO_EPOCH: Final = -1


class Address(NamedTuple):
    """The address of a controller's listener."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Leader(NamedTuple):
    """A leader of the quorum."""

    node_id: int
    epoch: int
    address: Address


class Finder:
    """Knows the leader, or whom to ask for it; see the module's docstring. It asks nobody itself."""

    def __init__(self, voters: Mapping[int, Address], bootstrap: Sequence[Address], random: Random) -> None:
        """Takes the addresses of voters by id, and those of controllers whose ids are not known. One of both has an element."""
        self._voters = voters
        self._told = list(dict.fromkeys((*voters.values(), *bootstrap)))
        assert self._told
        random.shuffle(self._told)
        self._next = 0
        self.epoch = NO_EPOCH
        """The newest epoch that an answer named."""
        self.leader: Leader | None = None

    def whom_to_ask(self) -> Address:
        """Returns the leader's address, or that of the controller whose turn it is. Call it once for each question."""
        if self.leader is not None:
            return self.leader.address
        address = self._told[self._next]
        self._next = (self._next + 1) % len(self._told)
        return address

    def learn(self, epoch: int, leader_id: int, endpoints: Iterable[tuple[int, str, int]] = ()) -> bool:
        """Takes over what an answer says of the leader, and returns whether that changed it. `endpoints` are (node id, host,
        port)."""
        before = self.leader
        if epoch < self.epoch or epoch == NO_EPOCH:
            return False
        if epoch > self.epoch:
            self.epoch, self.leader = epoch, None
        if leader_id != NOBODY and self.leader is None:
            addresses = dict(self._voters) | {node_id: Address(host, port) for node_id, host, port in endpoints}
            if leader_id in addresses:
                self.leader = Leader(leader_id, epoch, addresses[leader_id])
        return self.leader != before

    def did_not_answer(self, address: Address) -> None:
        """Notes that the controller at `address` cannot be asked now, so that another one is."""
        if self.leader is not None and self.leader.address == address:
            self.leader = None
