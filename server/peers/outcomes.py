"""The possible outcomes of a request to another node, besides an answer. Each outcome tells the caller something else:

| outcome | what is known | what a caller can do |
|---|---|---|
| an answer | it may still hold an error code | |
| `Disconnected` | the other node may have done what was asked, or never seen it | ask again, or another node |
| `TimedOut` | the same, and no answer came in time | ask another node first |
| `UnsupportedVersion` | nothing was sent: the nodes have no version of it in common | give up until the other is upgraded |
| `Closed` | this side has closed the peer, while the request waited or before | stop |
"""

from __future__ import annotations


class PeerError(Exception):
    """There is no answer to a request. The text says why, and names the other node."""


class Disconnected(PeerError):
    """The connection ended before the answer came, or could not be opened, or what came over it was no answer."""


class TimedOut(PeerError):
    """The answer did not come in the time that the request had. Its connection was closed if it had been sent."""


class UnsupportedVersion(PeerError):
    """The other node has no version of this request that this one speaks. It was not sent."""


class Closed(PeerError):
    """This side closed the peer."""
