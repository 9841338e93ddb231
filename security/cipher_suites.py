"""The names of cipher suites: IANA's, which Java and so Kafka's settings use, and OpenSSL's.

OpenSSL's follow from IANA's by a few rules: `TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384` is `ECDHE-RSA-AES256-GCM-SHA384`. Those of
TLS 1.3 have the same names in both.
"""

from __future__ import annotations

import re
from typing import Final

TLS13_SUITES: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""The cipher suites of TLS 1.3 that OpenSSL has by default."""

_SUITE: Final = re.compile(
    r"TLS_(?P<exchange>ECDHE_ECDSA|ECDHE_RSA|DHE_RSA|RSA)_WITH_"
    r"(?:AES_(?P<bits>128|256)_(?P<mode>GCM|CBC|CCM_8|CCM)(?:_(?P<digest>SHA|SHA256|SHA384))?|(?P<stream>CHACHA20_POLY1305)_SHA256)"
)


def openssl_name(suite: str) -> str:
    """Returns OpenSSL's name of a suite of TLS 1.2. Raises KeyError if the name does not follow the rules; OpenSSL knows whether
    there is such a suite."""
    found = _SUITE.fullmatch(suite)
    if found is None:
        raise KeyError(suite)
    exchange = "" if found["exchange"] == "RSA" else found["exchange"].replace("_", "-") + "-"
    if found["stream"]:
        return f"{exchange}CHACHA20-POLY1305"
    mode = found["mode"].replace("_8", "8")
    parts = [f"AES{found['bits']}", "" if mode == "CBC" else mode, found["digest"] or ""]
    return exchange + "-".join(filter(None, parts))
