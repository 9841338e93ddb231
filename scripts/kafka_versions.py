"""Asks releases of Apache Kafka which versions of which APIs they serve, and prints the tables of
server/testkit/versions/kafka_releases.py.

    python -m scripts.kafka_versions 3.3.2 3.5.2 4.0.2

Each is fetched by Maven once, started as a single node and asked by ApiVersions. What it says to a client at a listener for
brokers is what counts.
"""

from __future__ import annotations

import socket
import sys
import tempfile
from pathlib import Path
from typing import Final

from compat_tests.reference.jvm import SMALL
from compat_tests.reference.kafka import HOST, RealKafka
from ottla.commands.clients.direct import Connection
from ottla.commands.cluster import jars
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

_VERSION: Final = 3
"""The first that has features, which all of these releases serve."""
_STANDALONE_SINCE: Final = (3, 9)
"""The first release whose voters are in its log. An older one has them in its settings."""


class Release(RealKafka):
    """A node of some release."""

    def __init__(self, directory: Path, release: str) -> None:
        super().__init__(directory)
        self._release = release
        self.settings = {name: text for name, text in self.settings.items() if not name.startswith("share.")}
        if tuple(map(int, release.split(".")[:2])) < _STANDALONE_SINCE:
            self.format_options = ()
            self.settings["controller.quorum.voters"] = f"1@{self.settings.pop('controller.quorum.bootstrap.servers')}"

    def _java(self) -> list[str]:
        return ["java", "-Xmx512m", *SMALL, "-cp", f"{jars.fetched(self._release)}/*"]


def ask(port: int) -> ApiVersionsResponse:
    """Returns what a broker says it serves."""
    with socket.create_connection((HOST, port), timeout=10) as stream:
        answer: ApiVersionsResponse = Connection(stream, f"{HOST}:{port}").call(ApiVersionsRequest("ottla", "1"), _VERSION)
    return answer


def main() -> int:
    """Prints the rows of the table."""
    releases = sys.argv[1:]
    found: list[dict[int, tuple[int, int]]] = []
    features: list[dict[str, int]] = []
    for release in releases:
        with tempfile.TemporaryDirectory(prefix="release-") as directory:
            broker = Release(Path(directory) / "broker", release)
            broker.start()
            try:
                answer = ask(broker.port)
                found.append({each.api_key: (each.min_version, each.max_version) for each in answer.api_keys})
                features.append({each.name: each.max_version_level for each in answer.finalized_features})
            finally:
                broker.stop()
        print(f"{release}: {len(found[-1])} APIs", file=sys.stderr)
    names = tuple(release.rpartition(".")[0] for release in releases)
    print(f"_NAMES: Final = {names}")
    for key in sorted(set().union(*found)):
        cells = ["-".join(map(str, ranges[key])) if key in ranges else "no" for ranges in found]
        print(f'    {key}: "{" ".join(cells)}",')
    for name, levels in zip(names, features, strict=True):
        print(f"    {name!r}: {levels},")
    return 0


if __name__ == "__main__":
    sys.exit(main())
