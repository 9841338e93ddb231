"""The broker reports on itself over HTTP: by `/metrics` to Prometheus, and by `/healthz` and `/readyz` to its operators.

This is off unless `ottla.metrics.port` is set (`ottla serve --metrics-port`), and then on loopback unless `ottla.metrics.host`
says otherwise. Nothing of this package, prometheus_client included, is imported before that.

The numbers are plain integers beside the code that counts them (`Traffic` in server/partitions/traffic.py, `RequestCounts` in
server/dispatch/measured.py, listeners, log directories), or follow from the broker's state (logs, groups, the metadata image).
They are read when somebody asks, on the broker's own event loop and in slices, so that a scrape of many partitions keeps no
client waiting.

`table` lists every metric; `latency` computes quantiles of times; `exposition` turns rows into Prometheus' text format;
`health` decides whether the broker is ready; `server` puts them together, and server/http answers requests. docs/metrics.md is
the list for users, and a test compares it with the table.
"""
