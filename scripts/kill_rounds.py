"""kill -9 a whole broker under load, start it again, and ask it for everything that it ever promised, round after round.

    python -m scripts.kill_rounds [--rounds 20] [--seed N] [--kind ottla|kafka]

compat_tests/kill_rounds.py says what the load is and what is promised. The first broken promise ends the run with exit code 1.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path

from compat_tests.brokers import CLASSES
from compat_tests.kill_rounds import Rounds


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=sorted(CLASSES), default="ottla")
    arguments = parser.parse_args()
    logging.getLogger("kill_rounds.librdkafka").disabled = True
    with tempfile.TemporaryDirectory(prefix="kill-rounds-") as directory:
        broker = CLASSES[arguments.kind](Path(directory))
        broker.start()
        rounds = Rounds(broker, arguments.seed)
        try:
            rounds.prepare()
            for number in range(1, arguments.rounds + 1):
                seconds = rounds.play(number)
                done = rounds.promises
                print(
                    f"round {number}: killed after {seconds:.1f} s; {rounds.produced} records, {len(done.transactions)} "
                    f"transactions, {done.committed_offset + 1} commits, {len(done.topics)} topics: all there",
                    flush=True,
                )
            done = rounds.promises
            assert any(done.transactions.values()), "no transaction was ever committed"
            assert done.committed_offset > 0, "no offset was ever committed"
        except AssertionError as error:
            print(f"{error}\n{broker.log_tail()}", file=sys.stderr)
            raise SystemExit(1) from None
        finally:
            broker.kill()


if __name__ == "__main__":
    main()
