"""`ottla log repair DIR`: mends what `ottla log verify` finds, and says first what it is going to do.

It holds the directory's `.lock` meanwhile. Derived files are built anew and torn tails cut off; of what was synced and is damaged
nothing is touched unless `--cut` or `--skip` says how. What is taken out of a log is kept in `.damaged` files. Afterwards the
same paths are checked once more; what is left is said, and the exit code is 1.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.commands import output
from ottla.commands.findings import Meaning
from ottla.commands.log_verify import Paths, refuse_locked, show, summary
from ottla.commands.output import Failure
from ottla.log.disk.checkpoint import LOCK
from ottla.log.disk.files import Disk, Lock, OsDisk
from ottla.log.errors import LogDirLocked, LogError

if TYPE_CHECKING:
    from ottla.commands.check_directory import Checker
    from ottla.commands.repair import Damage, Step


@output.guarded
def repair(
    paths: Paths,
    cut: Annotated[
        bool, typer.Option("--cut", help="Cut a damaged partition at its last sound batch before the damage.")
    ] = False,
    skip: Annotated[
        bool, typer.Option("--skip", help="Take only the damaged batches out; the others keep their offsets.")
    ] = False,
    aside: Annotated[
        Path | None,
        typer.Option("--damaged-to", help="Where what is taken out goes, if not beside it.", exists=True, file_okay=False),
    ] = None,
    metadata: Annotated[
        Path | None, typer.Option("--metadata-dir", help="Where the metadata log lies, if in none of these.", exists=True)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: output.Json = False,
) -> None:
    """Mend a data directory, or a partition of it, after saying how."""
    from ottla.commands.check_directory import Checker  # here, for the other commands start without it
    from ottla.commands.repair import Damage

    if cut and skip:
        raise typer.BadParameter("one of --cut and --skip", param_hint="--skip")
    for path in paths:
        if not path.is_dir():
            raise typer.BadParameter(f"{path} is no directory; give that of the partition", param_hint="DIR")
    damage = Damage.CUT if cut else Damage.SKIP if skip else Damage.LEAVE
    refuse_locked(paths)
    disk = OsDisk()
    locks = [] if dry_run else taken(disk, Checker(paths))
    try:
        checker = checked(paths, metadata)
        steps = plan(disk, checker, damage, aside)
        for step in steps:
            tell(step, as_json=as_json)
        if steps and not dry_run:
            from ottla.commands.admin import confirm  # librdkafka comes with it, and is not needed to look

            confirm(f"Do {'this' if len(steps) == 1 else f'these {len(steps)} things'}?", yes=yes)
            for step in steps:
                step.run()
            checker = checked(paths, metadata)
    except LogError as error:
        raise Failure(f"{error}; look with ottla log verify, and repair once more") from None
    finally:
        for lock in locks:
            lock.release()
    left = [finding for finding in checker.found if finding.meaning is not Meaning.NOTE]
    for finding in left:
        show(finding, as_json=as_json)
    if left:
        raise Failure(f"{summary(len(left))}{'; nothing was changed' if dry_run else ' left'}")


def checked(paths: list[Path], metadata: Path | None) -> Checker:
    """Everything was looked at. OSError."""
    from ottla.commands.check_directory import Checker

    checker = Checker(paths, metadata=metadata)
    with output.progress("verify", checker.total_bytes, in_bytes=True) as advance:
        checker.run(advance)
    return checker


def taken(disk: Disk, checker: Checker) -> list[Lock]:
    """The locks of the directories. Failure if a broker was faster."""
    locks: list[Lock] = []
    for path, directory in checker.directories.items():
        if directory.is_log_directory:
            try:
                locks.append(disk.lock(str(path / LOCK)))
            except LogDirLocked as error:
                raise Failure(str(error)) from None
    return locks


def plan(disk: Disk, checker: Checker, damage: Damage, aside: Path | None) -> list[Step]:
    """All steps, in order. OSError."""
    from ottla.commands.repair import Repair

    steps: list[Step] = []
    for directory in checker.directories.values():
        partitions = [check for of, check in checker.partitions if of is directory]
        steps += Repair(disk, directory, partitions, damage=damage, aside=aside).steps()
    return steps


def tell(step: Step, *, as_json: bool) -> None:
    if as_json:
        output.write_json({"step": step.text})
    else:
        sys.stdout.write(step.text + "\n")
    sys.stdout.flush()
