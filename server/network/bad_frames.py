"""Explains, for the log, why the first bytes of a frame cannot begin a request of Kafka's protocol."""

from __future__ import annotations


def describe_bad_size(size: int) -> str:
    """Returns what is wrong with a frame's size that no request can have. It recognises the first bytes of other protocols."""
    start = size.to_bytes(4, "big", signed=True)
    if start.startswith(b"\x16\x03"):  # a TLS handshake record
        return "it speaks TLS, which this listener does not; clients have to use security.protocol=PLAINTEXT"
    if start in (b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI", b"CONN"):
        return "it speaks HTTP; this listener is for Kafka clients"
    return f"it announces a frame of {size} bytes"
