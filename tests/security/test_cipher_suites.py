"""IANA's names of cipher suites, which Java uses, and OpenSSL's."""

from __future__ import annotations

import ssl

import pytest

from ottla.security.cipher_suites import TLS13_SUITES, openssl_name


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"),
        ("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CCM_8", "ECDHE-ECDSA-AES256-CCM8"),
    ],
)
def test_names(name: str, theirs: str) -> None:
    assert openssl_name(name) == theirs
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(theirs)  # raises for a name that OpenSSL does not have


@pytest.mark.parametrize(
    "name", ["TLS_NULL_WITH_NULL_NULL", "ECDHE-RSA-AES256-GCM-SHA384", "TLS_RSA_WITH_RC4_128_MD5", "", "ALL"]
)
def test_what_follows_no_rule(name: str) -> None:
    with pytest.raises(KeyError):
        openssl_name(name)


def test_those_of_tls_13_are_openssls() -> None:
    names = {each["name"] for each in ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).get_ciphers() if each["protocol"] == "TLSv1.3"}
    assert names == set(TLS13_SUITES)
