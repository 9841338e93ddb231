"""`ottla group why`: why a group is stuck or behind, as far as a client of any Kafka can see (why/verdicts.py has the rules)."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from ottla.commands import output
from ottla.commands.clients import client
from ottla.commands.why.facts import WATCH_S


@client.command
def why(
    cluster: client.Cluster,
    name: Annotated[str, typer.Argument(metavar="GROUP", help="The group.", show_default=False)],
    watch: Annotated[float, typer.Option(min=0, max=60, metavar="SECONDS", help="For how long to watch it.")] = WATCH_S,
    as_json: output.Json = False,
) -> None:
    """Say why a group is stuck or behind: one reason, what it was seen by, and what would help."""
    from ottla.commands.why.gathering import Asked, gather  # not loaded with every command
    from ottla.commands.why.verdicts import judge

    ours = cluster.admin()
    asked = Asked(cluster, ours, cluster.reach(ours), time.sleep, lambda: int(time.time() * 1000))
    facts = gather(asked, name, watch)
    verdict = judge(facts)
    if as_json:
        output.write_json({**verdict._asdict(), "group": name, "records_left": facts.to_read, "is_exact": facts.is_exact})
    else:
        lines = [verdict.text, *(f"  {line}" for line in verdict.evidence)]
        output.write_lines([*lines, verdict.remedy] if verdict.remedy else lines)
    for note in facts.notes:
        output.note(note)
