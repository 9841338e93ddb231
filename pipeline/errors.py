"""Errors of the pipeline's jobs as one line for the user, and Spark's own errors reduced to such a line.

Spark reports errors as stacks in two languages. `in_one_line` keeps the innermost reason that was meant for people: what a Python
worker raised, with the name of its class unless it is one of ours; otherwise the JVM's deepest cause.
"""

from __future__ import annotations

import re
from typing import Final

_RAISED: Final = re.compile(
    r"Traceback \(most recent call last\):\n(?: .*\n)*(?P<name>[\w.<>]+)(?::[^\S\n]*(?P<why>.*))?$", re.MULTILINE
)
"""Matches a Python traceback: its frames are indented, and the exception is not."""
_OWN: Final = "ottla."
_OF_THE_JVM: Final = ("py4j.", "pyspark.")
"""The Python classes for exceptions of the JVM; the rest of the text says which one it was."""
_CAUSE: Final = re.compile(r"^(?:Caused by: |: )?(?:[\w$]+\.)+(?P<name>[\w$]*(?:Exception|Error))[:\s]+(?P<why>.+)$")
_CONDITION: Final = re.compile(r"^\[[A-Z_.]+\]\s*")
_ADVICE: Final = re.compile(r"\s*SQLSTATE: \w+.*$", re.DOTALL)
_LONGEST: Final = 400


class PipelineError(Exception):
    """Something could not be done; the message is one line for the user. The exit code is 1."""


class UsageError(PipelineError):
    """The user's arguments cannot be right: an invalid schema, options that exclude each other. The exit code is 2."""


def in_one_line(error: BaseException) -> str:
    """Returns the reason in an error of Spark, of Py4J or of Python."""
    text = str(error)
    all_raised = list(_RAISED.finditer(text))
    if not all_raised:
        found = _of_jvm(text)
    elif (raised := all_raised[-1])["name"].startswith(_OF_THE_JVM):  # the last one is where it began
        found = _of_jvm(text[raised.start("name") :])
    else:
        name, why = raised["name"].rpartition(".")[2], (raised["why"] or "").strip()
        found = why if why and raised["name"].startswith(_OWN) else ": ".join(filter(None, (name, why)))
    found = _ADVICE.sub("", _CONDITION.sub("", found)) or type(error).__name__
    return found if len(found) <= _LONGEST else f"{found[:_LONGEST]}..."


def _of_jvm(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    deepest = [line for line in lines if line.startswith("Caused by: ")]
    if deepest:  # of a failed stage: the last one is where it began
        return _why(deepest[-1]) or deepest[-1].removeprefix("Caused by: ")
    found = [why for why in map(_why, lines) if why]
    return found[-1] if found else next((line for line in lines if line), "")


def _why(line: str) -> str | None:
    """Returns the message of a cause, with its class if the message is a single word, which says nothing by itself."""
    match = _CAUSE.match(line)
    if match is None:
        return None
    return match["why"] if " " in match["why"] else f"{match['name']}: {match['why']}"
