"""Writes what a failed test wants to know of its broker: the last requests, a line each, and the faults with their hits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ottla.server.testkit.fault_fields import FOR_EVER, RULES
from ottla.wire.errors import ErrorCode

_KNOWN = frozenset(ErrorCode)


def write_report(requests: Sequence[Mapping[str, Any]], faults: Iterable[Mapping[str, Any]]) -> str:
    """Returns the text; empty if there is nothing. `requests` and `faults` are as the calls of these names answer them."""
    lines = [f"fault {_fault_line(fault)}" for fault in faults]
    if requests:
        first_ms = requests[0]["at_ms"]
        lines.append(f"the last {len(requests)} requests, with the time since the first, by the broker's clock:")
        lines += [_request_line(request, first_ms) for request in requests]
    return "\n".join(lines)


def _fault_line(fault: Mapping[str, Any]) -> str:
    on, do = (json.dumps(fault.get(name) or {}, ensure_ascii=False) for name in ("on", "do"))
    state = "active" if fault["active"] else "over"
    rules = "".join(f", {name} {fault[name]}" for name in RULES if fault.get(name, FOR_EVER) != FOR_EVER)  # for ever says nothing
    return (
        f"{fault['id']}, {state}: {fault['hits']} hits in {fault['matches']} matches, {fault['held']} held; {do} on {on}{rules}"
    )


def _request_line(request: Mapping[str, Any], first_ms: int) -> str:
    words = [
        f"{request['seq']:>5}",
        f"+{(request['at_ms'] - first_ms) / 1000:.3f} s",
        f"connection {request['connection']} ({request['client_id']})",
        f"{request['api']} v{request['version']}",
        f"{request['outcome']} after {request['took_us'] / 1000:.1f} ms" if request["took_us"] else request["outcome"],
    ]
    if request["fault"] is not None:
        words.append(f"by fault {request['fault']}")
    words += dict.fromkeys(_errors(request["response"]))
    return "  ".join(words)


def _errors(value: Any) -> Iterator[str]:
    """Yields the names of all errors in an answer."""
    if isinstance(value, list):
        for each in value:
            yield from _errors(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name.endswith("error_code") and each:
                yield ErrorCode(each).name if each in _KNOWN else f"error {each}"
            else:
                yield from _errors(each)
