"""What is wrong with bytes that do not begin as a request of Kafka does."""

from __future__ import annotations


def why_no_frame(size: int) -> str:
    """Returns what is wrong with a size that no request has; the first bytes of other protocols are recognised."""
    start = size.to_bytes(4, "big", signed=True)
    if start.startswith(b"\x16\x03"):  # a handshake record
        return "it speaks TLS, which this listener does not; security.protocol is PLAINTEXT here"
    if start in (b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI", b"CONN"):
        return "it speaks HTTP; this listener is for clients of Kafka"
    return f"it announces a frame of {size} bytes"
