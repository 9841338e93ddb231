"""Texts of settings: a file, the variables of Kafka's image, overrides."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.log.config_def import ConfigError
from ottla.server.settings.properties import Given, read_environment, read_file, read_overrides


def read(path: Path) -> dict[str, Given]:
    return read_file(str(path), lambda name: Path(name).read_bytes())


def test_a_file_in_utf_8_or_latin_1(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes("log.dirs=/tmp/é".encode())
    assert read(path) == {"log.dirs": Given("/tmp/é", f"{path}, line 1")}
    path.write_bytes("log.dirs=/tmp/é".encode("latin-1"))
    assert read(path)["log.dirs"].text == "/tmp/é"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"No such file or directory; name a server.properties"):
        read(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="Is a directory"):
        read(tmp_path)
    path = tmp_path / "server.properties"
    path.write_text("a=1\nb=\\u12x")
    with pytest.raises(ConfigError, match=rf"{path}, line 2: '\\u12x' is not a character"):
        read(path)


@pytest.mark.parametrize(
    ("variable", "setting"),
    [
        ("KAFKA_LOG_RETENTION_MS", "log.retention.ms"),
        ("KAFKA_LISTENER_NAME_INTERNAL_SSL_KEYSTORE_TYPE", "listener.name.internal.ssl.keystore.type"),
        ("KAFKA_MY__KEY", "my_key"),
        ("KAFKA_LISTENER_NAME_BROKER___1_MAX_CONNECTIONS", "listener.name.broker-1.max.connections"),
    ],
)
def test_variables_name_settings_as_in_kafka_s_image(variable: str, setting: str) -> None:
    assert read_environment({variable: "5"}) == {setting: Given("5", variable)}


def test_variables_that_are_no_settings() -> None:
    others = {
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_OPTS": "-D",
        "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN",
        "PATH": "/bin",
        "CLUSTER_ID": "x",
    }
    assert read_environment(others) == {}


def test_listeners_follow_from_what_is_advertised() -> None:
    advertised = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092,OUT://localhost:29092"}
    assert read_environment(advertised)["listeners"].text == "PLAINTEXT://0.0.0.0:9092,OUT://0.0.0.0:29092"
    assert read_environment(advertised | {"KAFKA_LISTENERS": "PLAINTEXT://:1"})["listeners"].text == "PLAINTEXT://:1"


def test_overrides() -> None:
    assert read_overrides(["a=b", " c =d=e"]) == {"a": Given("b", "--override"), "c": Given("d=e", "--override")}
    for wrong in ("a", "=b"):
        with pytest.raises(ConfigError, match=f"--override: '{wrong}' is not key=value"):
            read_overrides([wrong])
