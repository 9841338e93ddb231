"""`ottla log repair DIR`: repairs what `ottla log verify` finds, after announcing each step.

It holds the directory's `.lock` meanwhile. It rebuilds derived files and cuts off torn tails. Damage to bytes that were synced is
left alone unless `--cut` or `--skip` says what to do about it. What is taken out of a log, by a repair or by a start, is kept in
`.damaged` files; `--restore` first puts those back where nothing was written since. Afterwards the same paths are checked once
more; remaining findings are reported, and the exit code is then 1.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.commands import output
from ottla.commands.log.checks.findings import Meaning
from ottla.commands.log.verify import refuse_locked, show, summary
from ottla.commands.output import Failure
from ottla.log.disk.checkpoint import LOCK
from ottla.log.disk.files import Disk, Lock, OsDisk
from ottla.log.errors import LogDirLocked, LogError

if TYPE_CHECKING:
    from ottla.commands.log.checks.directory import Checker
    from ottla.commands.log.repairs.steps import Damage, Step


@output.guarded
def repair(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="DIR", help="Data directories, or directories of partitions.", exists=True, show_default=False),
    ],
    cut: Annotated[
        bool, typer.Option("--cut", help="Cut a damaged partition off after its last sound batch before the damage.")
    ] = False,
    skip: Annotated[
        bool, typer.Option("--skip", help="Take out only the damaged batches; the others keep their offsets.")
    ] = False,
    restore: Annotated[
        bool,
        typer.Option("--restore", help="First put back what .damaged files hold, if nothing has been written there since."),
    ] = False,
    aside: Annotated[
        Path | None,
        typer.Option("--damaged-to", help="Where to put what is taken out. Default: beside it.", exists=True, file_okay=False),
    ] = None,
    metadata: Annotated[
        Path | None, typer.Option("--metadata-dir", help="Where the metadata log is, if not in one of DIR.", exists=True)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: output.Json = False,
) -> None:
    """Repair a data directory, or a partition of it, after announcing each step."""
    from ottla.commands.log.checks.directory import Checker  # here, so that the other commands start without it
    from ottla.commands.log.repairs.steps import Damage

    if cut and skip:
        raise typer.BadParameter("use either --cut or --skip", param_hint="--skip")
    for path in paths:
        if not path.is_dir():
            raise typer.BadParameter(f"{path} is not a directory; name that of the partition", param_hint="DIR")
    damage = Damage.CUT if cut else Damage.SKIP if skip else Damage.LEAVE
    refuse_locked(paths)
    disk = OsDisk()
    locks = [] if dry_run else lock_directories(disk, Checker(paths))
    try:
        checker = run_checks(paths, metadata)
        if restore:
            from ottla.commands.log.repairs.restore import restore_steps  # here, because few repairs need it

            steps = list(restore_steps(disk, [check for _, check in checker.partitions]))
            if carry_out(steps, dry_run=dry_run, yes=yes, as_json=as_json):
                checker = run_checks(paths, metadata)
        if carry_out(plan(disk, checker, damage, aside), dry_run=dry_run, yes=yes, as_json=as_json):
            checker = run_checks(paths, metadata)
    except LogError as error:
        raise Failure(f"{error}; run ottla log verify to see what is wrong, then repair again") from None
    finally:
        for lock in locks:
            lock.release()
    left = [finding for finding in checker.found if finding.meaning is not Meaning.NOTE]
    for finding in left:
        show(finding, as_json=as_json)
    if left:
        raise Failure(f"{summary(len(left))}{'; nothing was changed' if dry_run else ' left'}")


def carry_out(steps: list[Step], *, dry_run: bool, yes: bool, as_json: bool) -> bool:
    """Announces the steps and, once they are confirmed, carries them out; returns whether there were any to carry out."""
    for step in steps:
        print_step(step, as_json=as_json)
    if not steps or dry_run:
        return False
    from ottla.commands.admin import confirm  # here: it loads librdkafka, which checking does not need

    confirm("Carry out this step?" if len(steps) == 1 else f"Carry out these {len(steps)} steps?", yes=yes)
    for step in steps:
        step.run()
    return True


def run_checks(paths: list[Path], metadata: Path | None) -> Checker:
    """Runs all checks. Raises OSError."""
    from ottla.commands.log.checks.directory import Checker

    checker = Checker(paths, metadata=metadata)
    with output.progress("verify", checker.total_bytes, in_bytes=True) as advance:
        checker.run(advance)
    return checker


def lock_directories(disk: Disk, checker: Checker) -> list[Lock]:
    """Locks the directories and returns the locks. Raises Failure if a broker holds one by now."""
    locks: list[Lock] = []
    for path, directory in checker.directories.items():
        if directory.is_log_directory:
            try:
                locks.append(disk.lock(str(path / LOCK)))
            except LogDirLocked as error:
                raise Failure(str(error)) from None
    return locks


def plan(disk: Disk, checker: Checker, damage: Damage, aside: Path | None) -> list[Step]:
    """Returns all steps, in order. Raises OSError."""
    from ottla.commands.log.repairs.steps import Repair

    steps: list[Step] = []
    for directory in checker.directories.values():
        partitions = [check for of, check in checker.partitions if of is directory]
        steps += Repair(disk, directory, partitions, damage=damage, aside=aside).steps()
    return steps


def print_step(step: Step, *, as_json: bool) -> None:
    if as_json:
        output.write_json({"step": step.text})
    else:
        sys.stdout.write(step.text + "\n")
    sys.stdout.flush()
