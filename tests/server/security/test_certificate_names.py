"""Names in certificates, as Java writes them, and the rules that make users of them."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from compat_tests.certificates import authority, issue
from ottla.log.config_def import ConfigError
from ottla.security.der import NotDer
from ottla.server.security.certificate_names import PrincipalRules, distinguished_name, subject_of

COMMON_NAME = "2.5.4.3"
NAMED = (
    "2.5.4.3", "2.5.4.6", "2.5.4.7", "2.5.4.8", "2.5.4.9", "2.5.4.10", "2.5.4.11", "0.9.2342.19200300.100.1.25",
    "0.9.2342.19200300.100.1.1",
)  # fmt: skip
UNNAMED = ("1.2.840.113549.1.9.1", "2.5.4.5", "2.5.4.12", "2.5.4.42", "1.2.3")
STRINGS = {12: "utf-8", 19: "ascii", 20: "utf-8", 22: "ascii", 27: "ascii", 28: "utf-32-be", 30: "utf-16-be", 18: "ascii"}


def tlv(tag: int, content: bytes) -> bytes:
    assert len(content) < 65536
    size = bytes([len(content)]) if len(content) < 128 else b"\x82" + len(content).to_bytes(2, "big")
    return bytes([tag]) + size + content


def attribute(number: str, tag: int, value: bytes) -> bytes:
    first, second, *rest = map(int, number.split("."))
    encoded = bytes([first * 40 + second])
    for each in rest:
        digits = [each & 0x7F]
        while each := each >> 7:
            digits.append(each & 0x7F | 0x80)
        encoded += bytes(reversed(digits))
    return tlv(0x30, tlv(0x06, encoded) + tlv(tag, value))


def name(*sets: list[bytes]) -> bytes:
    return tlv(0x30, b"".join(tlv(0x31, b"".join(each)) for each in sets))


def drawn_names() -> list[bytes]:
    """All kinds of attributes, values with everything that is special somewhere, and names of several parts."""
    chance = random.Random(18)
    texts = ["a", "", " ", "  a  ", "a b", "\ra\r", "a\rb", "\ta", "a\x00b", "é", "日本", "😀", "\x7f", "a\u00a0", "A/b@c.d"]
    texts += [f"{before}{special}{after}" for special in ',=+<>#;"\\' for before in ("", "a") for after in ("", "b")]
    names = [name([attribute(COMMON_NAME, 12, text.encode())]) for text in texts]
    names += [name([attribute(each, 12, b"x, y")]) for each in NAMED + UNNAMED]
    names += [name([attribute(COMMON_NAME, tag, "a b".encode(code))]) for tag, code in STRINGS.items()]
    names += [name(), name([attribute(COMMON_NAME, 4, b"\1\2")])]
    for _ in range(300):
        sets = [
            [
                attribute(chance.choice(NAMED + UNNAMED), chance.choice((12, 19, 22)), chance.choice(texts[:8]).encode())
                for _ in range(chance.choice((1, 1, 1, 2)))
            ]
            for _ in range(chance.randrange(1, 5))
        ]
        names.append(name(*sets))
    return names


@pytest.mark.oracle
def test_names_are_java_s() -> None:
    names = drawn_names()
    source = Path(__file__).with_name("Names.java")
    asked = "".join(f"{each.hex()}\n" for each in names)
    done = subprocess.run(["java", str(source)], input=asked, capture_output=True, text=True, check=True)
    theirs = [bytes.fromhex(line.removesuffix(".")).decode() for line in done.stdout.splitlines()]
    assert [distinguished_name(each) for each in names] == theirs


@pytest.mark.parametrize(
    ("sets", "text"),
    [
        ([[(NameOID.COUNTRY_NAME, "SE")], [(NameOID.COMMON_NAME, "client one")]], "CN=client one,C=SE"),
        ([[(NameOID.ORGANIZATION_NAME, "Held Out, Inc")], [(NameOID.COMMON_NAME, "a")]], "CN=a,O=Held Out\\, Inc"),
        ([[(NameOID.COMMON_NAME, " #a=b ")]], "CN=\\ \\#a\\=b\\ "),
        ([[(NameOID.EMAIL_ADDRESS, "a@b")]], "1.2.840.113549.1.9.1=#1603614062"),
        ([], ""),
    ],
)
def test_a_name(sets: list[list[tuple[x509.ObjectIdentifier, str]]], text: str) -> None:
    attributes = [x509.RelativeDistinguishedName([x509.NameAttribute(*each) for each in part]) for part in sets]
    assert distinguished_name(x509.Name(attributes).public_bytes()) == text


def test_the_parts_of_one_set_stay_in_their_order() -> None:
    assert distinguished_name(name([attribute("2.5.4.11", 12, b"b"), attribute(COMMON_NAME, 12, b"a")])) == "OU=b+CN=a"


def test_the_subject_of_a_certificate() -> None:
    certificate = issue("alice", authority()).certificate
    assert subject_of(certificate.public_bytes(Encoding.DER)) == certificate.subject.public_bytes()


@pytest.mark.parametrize("data", [b"", b"\x30\x00", b"\x30\x02\x30\x00", b"\x31\x00", b"\x30\x04\x02\x02\x00\x01"])
def test_what_is_no_certificate(data: bytes) -> None:
    with pytest.raises(NotDer):
        subject_of(data)


@pytest.mark.parametrize(
    "data", [b"\x31\x00", tlv(0x30, b"\x30\x00"), tlv(0x30, b"\x31\x02\x30\x00"), tlv(0x30, b"\x31\x02\x05\x00")]
)
def test_what_is_no_name(data: bytes) -> None:
    with pytest.raises(NotDer):
        distinguished_name(data)


DUKE = "CN=duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "given", "user"),
    [
        ("DEFAULT", DUKE, DUKE),
        ("", DUKE, None),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", DUKE, "duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=duke,OU=Others", None),
        ("RULE:CN=(.*?),.*/$1/,DEFAULT", "O=x", "O=x"),
        ("RULE:CN=(.*?),.*/$1/ , DEFAULT", "O=x", "O=x"),
        ("RULE:CN=(.*?),.*/$1/\nDEFAULT", "O=x", "O=x"),
        ("RULE:CN=(.*?),OU=(.*?),.*/$1@$2/L", DUKE, "duke@serviceusers"),
        ("RULE:CN=(.*?),OU=(.*?),.*/$1@$2/U,DEFAULT", DUKE, "DUKE@SERVICEUSERS"),
        ("RULE:duke/x/,DEFAULT", DUKE, DUKE),  # a rule is about the whole name
        (r"RULE:CN=(\w+)\/(\w+)/$2\/$1/", "CN=a/b", "b/a"),
        (r"RULE:CN=(\w+)/\$1$1$10$2/", "CN=a", "$1aa0$2"),
        ("RULE:CN=(a)?(.*)/<$1$2>/", "CN=b", "<b>"),
        (r"RULE:CN=((?!x).*)/$1/,DEFAULT", "CN=a", "a"),  # RE2 cannot look ahead
        (r"RULE:CN=((?!x).*)/$1/,DEFAULT", "CN=x", "CN=x"),
        ("RULE:.*/x/", "abc", "xx"),  # the empty end matches, too, and Java replaces all
    ],
)
def test_rules(rules: str, given: str, user: str | None) -> None:
    assert PrincipalRules(rules).user_of(given) == user


@pytest.mark.parametrize(
    "rules",
    [
        "RULE:a/b",
        "RULE:a",
        "rule:a/b/",
        "DEFAULT DEFAULT",
        "DEFAULT,x",
        "RULE:a/b/l",
        "RULE:(/b/",
        f"RULE:(?=a{{{10**12}}})/b/",
        f"RULE:(?={'(' * 900}{')' * 900})/b/",
    ],
)
def test_rules_that_have_no_meaning(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"^listener\.name\.x\.ssl\.principal\.mapping\.rules: '"):
        PrincipalRules(rules, "listener.name.x.ssl.principal.mapping.rules")
