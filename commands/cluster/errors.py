"""Errors that say why a cluster of `ottla cluster` or `ottla.testing.Cluster` cannot run, as one line for the user."""

from __future__ import annotations


class ClusterError(Exception):
    """Says in one line what is wrong and what to do. `exit_code` is what the command ends with."""

    exit_code = 1


class NotInstalled(ClusterError):
    """Says which program is missing on this machine; nothing has been written then."""

    exit_code = 2
