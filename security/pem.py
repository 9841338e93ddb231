"""Gives OpenSSL keys and certificates that are in no file."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable


def load_pem(context: ssl.SSLContext, pem: bytes, password: Callable[[], str] | None = None) -> None:
    """Gives a context its key and certificates. Python takes them from files only, so they go through one that is in memory and
    has no name. Raises ssl.SSLError.
    """
    descriptor = os.memfd_create("identity")
    try:
        os.write(descriptor, pem)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=password)
    finally:
        os.close(descriptor)
