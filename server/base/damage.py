"""Tells an operator what to do about damaged bytes from which state would have been read.

Kafka loads its internal topics without a look at the CRCs, so that a flipped bit becomes a committed offset. Here neither a
coordinator nor the metadata image is made from such bytes, and the message that says so ends with the way out.
"""

from __future__ import annotations


def way_out(path: str) -> str:
    """Returns the last sentences of a message about damage in a file, or in the partition of a directory, at `path`."""
    from shlex import quote

    command = f"ottla log repair --skip {quote(path)}"
    return f"Restore it from a copy. To do without what is damaged, run, while no broker does: {command}"
