"""Runs scenarios with clients: each client by a thread of its own, scenario by scenario."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from compat_tests.behaviours.cell import LONG, TIMES, cell_of
from compat_tests.behaviours.clients import CLIENTS, Client
from compat_tests.behaviours.driver import Driver, EndedError
from compat_tests.behaviours.scenarios import SCENARIOS, Scenario

MISSING: Final = "-"
ENDED: Final = "an uncaught error ends its process"
VARIES: Final = "varies: "
START_SECONDS: Final = 30.0
Cells = dict[tuple[str, str], list[str]]
"""The observations by scenario and client, a text each time."""


class Runner:
    """One client with its driver, which is started anew when something in it hangs."""

    def __init__(self, client: Client, directory: Path) -> None:
        self._client = client
        self._directory = directory
        self._driver: Driver | None = None

    def version(self) -> str:
        return str(self._running().call("version", START_SECONDS).result)

    def run(self, scenario: Scenario) -> str:
        """Runs a scenario, and returns what the client does in it."""
        if self._client.name in scenario.without:
            return MISSING
        driver = self._running()
        try:
            with cell_of(self._client.name, driver, scenario.partitions) as cell:
                text = scenario.run(cell)
        except EndedError:  # in the scenario, or as what the client had open was closed
            text = ENDED
        if driver.hangs:
            self.end()
        return text

    def end(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.end()

    def _running(self) -> Driver:
        if self._driver is None:
            self._driver = self._client.start(self._directory)
        return self._driver


def run_all(
    directory: Path,
    scenarios: Sequence[Scenario] = SCENARIOS,
    clients: Iterable[Client] = CLIENTS,
    *,
    times: int = 1,
    told: Callable[[str, str, str], None] = lambda *_: None,
) -> tuple[Cells, dict[str, str]]:
    """Runs every scenario so many times with every client: what was seen, and the clients' versions. `told` gets each cell."""
    cells: Cells = {}
    versions: dict[str, str] = {}
    lock = threading.Lock()

    def run(client: Client) -> None:
        runner = Runner(client, directory)
        try:
            versions[client.name] = runner.version()
            for scenario in scenarios:
                for _ in range(times):
                    text = runner.run(scenario)
                    with lock:
                        cells.setdefault((scenario.key, client.name), []).append(text)
                        told(scenario.key, client.name, text)
        finally:
            runner.end()

    with ThreadPoolExecutor() as threads:
        for _ in threads.map(run, clients):
            pass
    return cells, versions


def one_text(seen: Sequence[str]) -> str:
    """The text of a cell: what was seen each time, or all that was seen."""
    different = sorted(set(seen))
    if len(different) == 1:
        return different[0]
    if len({without_time(text) for text in different}) == 1:
        longest = max(different, key=lambda text: TAKEN.index((TIME.search(text) or [""])[0]))
        return TIME.sub(lambda found: AT_MOST[found[0]], longest)
    return VARIES + " / ".join(different)


TAKEN: Final = [words for _, words in TIMES] + [LONG]
AT_MOST: Final = {taken: taken.replace(" after ", " sometimes after ") for taken in TAKEN if taken}
"""The words for the time that it took if that was not the same each time."""
TIME: Final = re.compile("|".join(re.escape(words) for words in (*AT_MOST, *AT_MOST.values())))


def without_time(text: str) -> str:
    """The text of a cell without how long it took."""
    return TIME.sub("", text)
