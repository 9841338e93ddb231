"""Facts about groups, gathered while pages wait for them, and beyond: a page is shown after some seconds, also if a cluster takes
longer to answer. What is known by then is on it, and a later page has the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.commands.output import Failure

if TYPE_CHECKING:
    from ottla.commands.why.facts import GroupFacts

MOST: Final = 8
"""So many groups are looked at at a time."""
KEPT_S: Final = 60.0
"""For how long an outcome is there for the page that asks for it."""

Tell = Callable[["GroupFacts"], object]
Gather = Callable[[Tell], "GroupFacts"]


class Gathering:
    """The facts that are known of a group, and more and more of it until it `is_over`."""

    def __init__(self, number: int, key: object) -> None:
        self.number = number
        self.key = key
        self.facts: GroupFacts | None = None
        self.error: Exception | None = None
        self.over_s: float | None = None
        self._over = threading.Event()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def tell(self, facts: GroupFacts) -> None:
        """Notes what is known so far."""
        self.facts = facts

    def end(self, now_s: float) -> None:
        self.over_s = now_s
        self._over.set()

    def wait(self, seconds: float) -> GroupFacts | None:
        """Returns what is known after so many seconds at most; None if that is nothing yet. Raises what went wrong."""
        self._over.wait(seconds)
        if self.is_over and self.error is not None:
            raise self.error
        return self.facts


class Gatherings:
    """All of them. `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[int, Gathering] = {}
        self._number = 0

    @property
    def running(self) -> int:
        """Returns how many threads are at work."""
        return sum(not one.is_over for one in list(self._known.values()))

    def find_or_begin(self, key: object, gather: Gather, number: int = 0) -> Gathering:
        """Returns the one with the number, or the one of this key that is under way; else begins one. Raises Failure if there are
        too many."""
        with self._lock:
            now_s = self._clock()
            for one in [one for one in self._known.values() if one.over_s is not None and now_s - one.over_s > KEPT_S]:
                del self._known[one.number]
            found = self._known.get(number)
            if found is not None and found.key == key:
                return found
            for one in self._known.values():
                if one.key == key and not one.is_over:
                    return one
            if self.running >= MOST:
                raise Failure(f"{MOST} groups are being looked at already; try again in some seconds")
            self._number += 1
            begun = self._known[self._number] = Gathering(self._number, key)
        threading.Thread(target=self._run, args=(begun, gather), name=f"group-{begun.number}", daemon=True).start()
        return begun

    def _run(self, gathering: Gathering, gather: Gather) -> None:
        try:
            gathering.facts = gather(gathering.tell)
        except Exception as error:  # noqa: BLE001 - the page that asks for it is told
            gathering.error = error
        finally:
            gathering.end(self._clock())
