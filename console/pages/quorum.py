"""The metadata quorum with its voters and observers, and the features of the cluster."""

from __future__ import annotations

from ottla.console.ask import Answer, Ask, Page
from ottla.console.subjects import quorum as subject
from ottla.console.subjects.absent import or_why


def quorum(ask: Ask) -> Answer:
    """Shows both."""
    found, why = or_why(lambda: subject.quorum(ask.source))
    features, why_no_features = or_why(lambda: subject.features(ask.source))
    values = {"quorum": found, "why": why, "features": features or [], "why_no_features": why_no_features}
    return Page("quorum.html", values)
