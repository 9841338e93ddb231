"""Says whether the broker is ready, and if not, why.

`/healthz` needs no decision: the broker's own event loop answers it, so a broker that hangs does not answer at all, which every
prober takes for a failure. `/readyz` is for load balancers and whatever else sends clients here.
"""

from __future__ import annotations

from ottla.server.metrics.sources import Sources


def reasons_not_ready(sources: Sources) -> list[str]:
    """Returns why the broker does not serve clients as it should, one line for each reason; an empty list if it is ready."""
    context = sources.context
    reasons = []
    if not sources.serving:
        reasons.append("the broker is starting or stopping")
    reasons += [f"listener {each.name} does not accept connections" for each in sources.listeners if not each.accepting]
    reasons += [each.failed for each in sources.logs.directories if each.failed is not None]
    broker = context.metadata.brokers.get(context.config.node_id)
    if broker is None:
        reasons.append("this broker is not registered in the metadata")
    elif not broker.active:
        reasons.append("this broker is fenced")
    return reasons
