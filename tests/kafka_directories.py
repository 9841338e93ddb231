"""The metadata half of two data directories that Apache Kafka 4.4.0 wrote: `kafka_directories.json` has their files in base64.

"static" was formatted with `controller.quorum.voters`; topics were made, grown and deleted, settings of all kinds changed,
quotas, credentials and access rules set and removed, producer ids taken; it was killed, started, stopped, started and killed. It
has a snapshot at offset 37. "dynamic" was formatted with `--standalone`, started once and stopped.
"""

from __future__ import annotations

import base64
import functools
import json
from pathlib import Path


@functools.cache
def kafka_files(name: str) -> dict[str, bytes]:
    """Returns the contents of the files by their path in the log directory."""
    text = Path(__file__).with_name("kafka_directories.json").read_text()
    return {path: base64.b64decode(data) for path, data in json.loads(text)[name].items()}
