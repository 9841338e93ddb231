"""What a job of the pipeline could not do, as one line for the user; and Spark's own errors brought down to such a line.

Spark tells errors in stacks of two languages. `in_one_line` keeps the innermost reason that was meant for people.
"""

from __future__ import annotations

import re
from typing import Final

_CAUSE: Final = re.compile(r"^(?:Caused by: )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error)[:\s]+(.+)$")
_CONDITION: Final = re.compile(r"^\[[A-Z_.]+\]\s*")
_ADVICE: Final = re.compile(r"\s*SQLSTATE: \w+.*$", re.DOTALL)
_LONGEST: Final = 400


class PipelineError(Exception):
    """One line for the user. Exit code 1."""


class UsageError(PipelineError):
    """What the user asked for cannot be meant: a schema that is none, options that exclude each other. Exit code 2."""


def in_one_line(error: BaseException) -> str:
    """The reason in an error of Spark, of Py4J or of Python."""
    causes = [line.strip() for line in str(error).splitlines()]
    found = [match[1] for match in map(_CAUSE.match, causes) if match]
    deepest = [line for line in causes if line.startswith("Caused by: ")]
    if deepest:  # of a failed stage: the last one is where it began
        match = _CAUSE.match(deepest[-1])
        text = match[1] if match else deepest[-1].removeprefix("Caused by: ")
    elif found:
        text = found[-1]
    else:
        text = next((line for line in causes if line), type(error).__name__)
    text = _ADVICE.sub("", _CONDITION.sub("", text))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
