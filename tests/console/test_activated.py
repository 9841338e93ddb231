"""The console that a broker starts: by which of the broker's listeners it asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.commands.output import Failure
from ottla.console.activated import cluster_for

ADDRESSES = {"PLAINTEXT": "127.0.0.1:1", "SASL_PLAINTEXT": "broker:2"}


def test_it_asks_by_plaintext_or_as_the_file_says(tmp_path: Path) -> None:
    assert cluster_for(ADDRESSES, None).bootstrap == "127.0.0.1:1"
    file = tmp_path / "client.properties"
    file.write_text("client.id=me\n")
    assert cluster_for(ADDRESSES, str(file)).bootstrap == "127.0.0.1:1"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";\n'
    )
    assert cluster_for(ADDRESSES, str(file)).bootstrap == "broker:2"
    file.write_text("bootstrap.servers=elsewhere:3\n")
    assert cluster_for(ADDRESSES, str(file)).bootstrap == "elsewhere:3"
    file.write_text("security.protocol=SSL\n")
    with pytest.raises(Failure, match=r"security\.protocol is SSL, and the broker listens with PLAINTEXT, SASL_PLAINTEXT"):
        cluster_for(ADDRESSES, str(file))
