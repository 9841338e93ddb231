"""Keys and signed tokens for the tests of this folder."""

from __future__ import annotations

import functools
import json
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from tests.fakes import NOW_MS

NOW = NOW_MS // 1000


@functools.cache
def rsa_key(name: str = "one", bits: int = 2048) -> rsa.RSAPrivateKey:
    """A key of this name, always the same."""
    return rsa.generate_private_key(65537, bits)


@functools.cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@functools.cache
def ed_key() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def jwk(key: Any, **more: Any) -> dict[str, Any]:
    """The public key as in a JWKS."""
    kinds: dict[Any, Any] = {rsa.RSAPrivateKey: RSAAlgorithm, ec.EllipticCurvePrivateKey: ECAlgorithm}
    kind = next((how for which, how in kinds.items() if isinstance(key, which)), OKPAlgorithm)
    return dict(json.loads(kind.to_jwk(key.public_key()))) | {"key_ops": ["verify"]} | more


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def signed(key: Any, algorithm: str = "RS256", kid: str | None = "one", header: Any = None, **claims: Any) -> str:
    """A token; a claim that is None is left out."""
    found = {"sub": "alice", "exp": NOW + 60, "iat": NOW, "aud": "kafka", "iss": "https://issuer", **claims}
    headers = {**({"kid": kid} if kid is not None else {}), **(header or {})}
    return jwt.encode({k: v for k, v in found.items() if v is not None}, key, algorithm, headers)
