"""log/errors.py: what callers distinguish. tests/server/base/test_errors.py compares each class with its code."""

from __future__ import annotations

import pytest

from ottla.log import errors
from ottla.log.errors import CorruptLog, CorruptRecord, InvalidRecord, InvalidTimestamp, LogError, StorageError

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]


@pytest.mark.parametrize("kind", KINDS)
def test_each_is_an_error_of_the_log_and_says_when_it_comes(kind: type[Exception]) -> None:
    assert issubclass(kind, LogError)
    assert kind.__doc__
    assert str(kind("why")) == "why"


@pytest.mark.parametrize("kind", [InvalidRecord, InvalidTimestamp])
def test_a_refusal_names_the_records_that_it_means(kind: type[InvalidRecord | InvalidTimestamp]) -> None:
    assert kind("why").record_errors == []
    pairs = ((1, "this"), (4, "that"))
    assert kind("why", pairs).record_errors == list(pairs)


def test_what_is_wrong_with_bytes_is_no_failure_of_the_disk_unless_they_were_synced() -> None:
    assert not issubclass(CorruptRecord, StorageError)
    assert issubclass(CorruptLog, StorageError)
    assert issubclass(errors.OffsetsOutOfOrder, CorruptRecord)
