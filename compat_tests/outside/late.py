"""The search for clients that have not got on after all was repaired."""

from __future__ import annotations

from compat_tests.outside.workers import Worker


def behind(workers: list[Worker], wanted: dict[Worker, int]) -> tuple[list[Worker], list[Worker]]:
    """Returns who has not done as much as wanted, and who need not. Of those who fence each other one has to; the slower may be
    fenced always."""
    taken = {worker.contested for worker in workers if worker.contested is not None and worker.done >= wanted[worker]}
    late = [worker for worker in workers if worker.done < wanted[worker] and worker.wrong is None]
    return [worker for worker in late if worker.contested not in taken], [worker for worker in late if worker.contested in taken]
