"""One process has one configuration of Kerberos: what a broker names is there while it runs, and a second one does not inherit
it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from ottla.log.config_def import ConfigError
from ottla.server.security.kerberos_config import VARIABLE, KerberosConfig

Make = Callable[[str], KerberosConfig]


@pytest.fixture(params=["/etc/of-the-process.conf", None])
def before(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """The environment of the process before any broker starts."""
    text: str | None = request.param
    if text is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, text)
    return text


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes configurations, which are closed at the end."""
    made: list[KerberosConfig] = []

    def add(path: str) -> KerberosConfig:
        made.append(KerberosConfig(path))
        return made[-1]

    yield add
    for each in made:
        each.close()


def test_a_second_broker_does_not_inherit_what_the_first_has_named(before: str | None, make: Make) -> None:
    first = make("/one.conf")
    first.use()
    first.use()  # by another listener
    assert os.environ[VARIABLE] == "/one.conf"
    first.close()
    assert os.environ.get(VARIABLE) == before
    second = make("")
    second.use()
    assert os.environ.get(VARIABLE) == before
    second.close()
    third = make("/three.conf")
    third.use()
    assert os.environ[VARIABLE] == "/three.conf"


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("/one.conf", "/two.conf", "wants /two.conf, but another broker in this process uses /one.conf"),
        ("/one.conf", "", "wants the system's configuration, but another broker in this process uses /one.conf"),
        ("", "/two.conf", "wants /two.conf, but another broker in this process uses the system's configuration"),
    ],
)
def test_two_at_a_time_have_to_name_the_same(before: str | None, make: Make, first: str, second: str, said: str) -> None:
    one, two = make(first), make(second)
    one.use()
    with pytest.raises(ConfigError, match=f"java.security.krb5.conf: this broker {said}"):
        two.use()
    assert os.environ.get(VARIABLE) == (first or before)
    two.close()
    assert os.environ.get(VARIABLE) == (first or before)
    one.close()
    two.use()
    assert os.environ.get(VARIABLE) == (second or before)


def test_the_last_of_those_that_name_the_same_puts_it_back(before: str | None, make: Make) -> None:
    one, two = make("/both.conf"), make("/both.conf")
    one.use()
    two.use()
    one.close()
    assert os.environ[VARIABLE] == "/both.conf"
    two.close()
    two.close()
    assert os.environ.get(VARIABLE) == before
