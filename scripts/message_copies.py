"""Consume, transform, produce through kills, in every way of `WAYS`, each on a broker of its own.

    python -m scripts.message_copies [--kind ottla|kafka] [--seed N] [--only TEXT]... [--keep DIR]

compat_tests/message_copies.py says what is copied by whom and what is asked of it. With `--kind kafka` clean stops of the broker
are left out, for the reason that it gives. The first broken promise ends the run with exit code 1.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Final

from compat_tests.brokers import CLASSES
from compat_tests.message_copies import WAITS_FOR_MEMBERS, Copies, Figures, Way


def _ways() -> Iterator[Way]:
    for bounced in ("copiers", "broker"):
        for clean in (False, True):
            name = f"{'clean' if clean else 'hard'} bounces of the {bounced}"
            yield Way(f"{name}, with group metadata", bounced, clean)
            yield Way(f"{name}, without group metadata", bounced, clean, group_metadata=False)
            yield Way(f"{name}, consumer protocol", bounced, clean, reader_protocol="consumer")
            yield Way(f"{name}, one group", bounced, clean, group_mode=True)


WAYS: Final = tuple(_ways())
FULL: Final = Figures()
FULL_GROUP: Final = Figures(partitions=9, copiers=3)


def _loses(kind: str, way: Way) -> bool:
    """Returns whether this broker may break the promise by itself, as compat_tests/message_copies.py describes."""
    return kind == "kafka" and way.bounced == "broker" and way.clean


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=sorted(CLASSES), default="ottla")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="only ways whose name holds this")
    parser.add_argument("--keep", type=Path, help="a directory for all logs, which stays")
    arguments = parser.parse_args()
    logging.getLogger("message_copies.librdkafka").disabled = True
    with tempfile.TemporaryDirectory(prefix="message-copies-") as temporary:
        ways = [way for way in WAYS if all(text in way.name for text in arguments.only) and not _loses(arguments.kind, way)]
        for number, way in enumerate(ways):
            directory = (arguments.keep or Path(temporary)) / f"{arguments.kind}-{number}"
            broker = CLASSES[arguments.kind](directory / "broker", WAITS_FOR_MEMBERS if way.group_mode else None)
            directory.mkdir(parents=True)
            broker.start()
            figures = FULL_GROUP if way.group_mode else FULL
            words = directory / "said.txt"
            try:
                with open(words, "w") as said, redirect_stdout(said):  # what the processes said, for a failure
                    told = Copies(broker, way, figures, directory, arguments.seed + number).play()
            except (AssertionError, subprocess.TimeoutExpired) as error:
                print(f"{words.read_text()[-20_000:]}\n{broker.log_tail()}\n{way.name}: {error}", file=sys.stderr)
                raise SystemExit(1) from None
            finally:
                broker.kill()
            print(
                f"{arguments.kind}, {way.name}: {figures.messages} messages each once and in order; {told.restarts} restarts,"
                f" {told.given_up} copiers gave up; {told.seconds:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
