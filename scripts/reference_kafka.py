#!/usr/bin/env python3
"""A real Apache Kafka 4.4.0 for a quick question at the shell; compat_tests/reference/kafka.py says what it does.

python scripts/reference_kafka.py [--port 29092] [--data-dir DIR] [--override key=value]...
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from compat_tests.reference.kafka import main  # noqa: E402 - needs the path above

if __name__ == "__main__":
    sys.exit(main())
