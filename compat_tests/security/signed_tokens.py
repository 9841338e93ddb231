"""A broker of either kind that checks signed tokens, and whoever issues them: keys, tokens, and an https server with the keys.

LOGIN takes its keys from a file, FETCHED from the https server, whose certificate the truststore of its login module vouches for.
"""

from __future__ import annotations

import http.server
import json
import ssl
import threading
import time
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from compat_tests.brokers import CLASSES, Address
from compat_tests.certificates import authority, issue
from compat_tests.reference.kafka import HOST, RealKafka, free_port

PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
ALLOWED: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
AUDIENCE, ISSUER = "kafka", "https://issuer"
SIGNED: Final = {
    "sasl.oauthbearer.expected.audience": f"{AUDIENCE},other",
    "sasl.oauthbearer.expected.issuer": ISSUER,
}


class Issuer:
    """Issues tokens. `keys` are by their ids; what `publish` wrote is in the file, and what the https server says."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.file = directory / "jwks.json"
        self.keys: dict[str, Any] = {
            "one": rsa.generate_private_key(65537, 2048),
            "two": rsa.generate_private_key(65537, 2048),
            "new": rsa.generate_private_key(65537, 2048),
            "curve": ec.generate_private_key(ec.SECP256R1()),
        }
        self.document = b""
        self.fetches = 0
        self.publish("one", "curve")

    @property
    def file_url(self) -> str:
        return self.file.as_uri()

    def jwks(self, *names: str) -> bytes:
        found = []
        for name in names:
            key = self.keys[name]
            kind = ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else RSAAlgorithm
            found.append({**json.loads(kind.to_jwk(key.public_key())), "kid": name, "use": "sig"})
            found[-1].pop("key_ops", None)
        return json.dumps({"keys": found}).encode()

    def publish(self, *names: str) -> None:
        """Makes these the keys that count."""
        self.document = self.jwks(*names)
        beside = self.file.with_suffix(".new")
        beside.write_bytes(self.document)
        beside.rename(self.file)

    def token(self, by: str = "one", algorithm: str = "RS256", kid: str | None = "", **claims: Any) -> str:
        """A token; `kid` is by default the name of the key, and times are relative to now. A claim that is None is left out."""
        now = int(time.time())
        times = {name: now + claims[name] for name in ("exp", "iat", "nbf") if isinstance(claims.get(name), int)}
        found = {"sub": "alice", "exp": now + 300, "iat": now, "aud": AUDIENCE, "iss": ISSUER, **claims, **times}
        headers = {} if kid is None else {"kid": kid or by}
        payload = json.dumps({name: value for name, value in found.items() if value is not None}).encode()
        return jwt.PyJWS().encode(payload, self.keys[by], algorithm, headers)


class KeyServer:
    """Serves an issuer's keys by https."""

    def __init__(self, issuer: Issuer, directory: Path) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.fetches += 1
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(issuer.document)))
                self.end_headers()
                self.wfile.write(issuer.document)

            def log_message(self, format: str, *args: Any) -> None:
                """Says nothing."""

        self.trust = directory / "issuers.pem"
        self.trust.write_text(authority("issuers").chain_pem())
        identity = directory / "issuer.pem"
        identity.write_text(issue("issuer", authority("issuers")).pem())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity)
        self._server = http.server.ThreadingHTTPServer((HOST, 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://localhost:{self._server.server_address[1]}/keys"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def token_settings(listener: str, url: str, options: str = "") -> dict[str, str]:
    """The settings of one listener that takes signed tokens. Kafka makes itself a token, too, and does not start without a name
    for that."""
    own, own_token = f"listener.name.{listener.lower()}.", 'unsecuredLoginStringClaim_sub="me"'
    return {
        f"{own}sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{own}oauthbearer.sasl.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required {own_token}{options};",
        f"{own}oauthbearer.sasl.server.callback.handler.class": f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
        f"{own}oauthbearer.sasl.oauthbearer.jwks.endpoint.url": url,
    }


class TokenBroker:
    """See the module's docstring. `settings` come on top, and one that is empty is left out."""

    def __init__(self, kind: str, directory: Path, issuer: Issuer, server: KeyServer | None, **settings: str) -> None:
        self.kind = kind
        self.port, self.login_port, self.fetched_port, controller = (free_port() for _ in range(4))
        own = {"LOGIN": self.login_port} | ({} if server is None else {"FETCHED": self.fetched_port})
        clients = ",".join([f"PLAINTEXT://{HOST}:{self.port}", *(f"{name}://{HOST}:{port}" for name, port in own.items())])
        protocols = ",".join(["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", *(f"{name}:SASL_PLAINTEXT" for name in own)])
        urls = issuer.file_url
        given = {
            "listeners": f"{clients},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": clients,
            "controller.quorum.bootstrap.servers": f"{HOST}:{controller}",
            "listener.security.protocol.map": protocols,
            "connection.failed.authentication.delay.ms": "10",
            "ottla.login.failures.per.minute": "0",  # these tests fail often, on purpose
            **SIGNED,
            **token_settings("login", issuer.file_url),
        }
        if server is not None:
            urls += f",{server.url}"
            trust = f' ssl.truststore.type="PEM" ssl.truststore.location="{server.trust}"'
            given |= token_settings("fetched", server.url, trust)
        given |= {name.replace("__", "-").replace("_", "."): value for name, value in settings.items()}
        given = {name: value for name, value in given.items() if value}
        self.broker = CLASSES[kind](directory / kind, given, self.port)
        if isinstance(self.broker, RealKafka):
            self.broker.jvm_options = (f"-D{ALLOWED}={urls}",)
        else:
            self.broker.settings.setdefault(ALLOWED, urls)

    def start(self) -> None:
        """Raises BrokerFailed."""
        self.broker.start()

    def stop(self) -> None:
        self.broker.stop()

    def address(self, port: int) -> Address:
        """The broker at one of its ports."""
        assert self.broker.process is not None
        return Address(self.kind, port, self.broker.process.pid, str(self.broker.log_file))
