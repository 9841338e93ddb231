"""What the broker tells of itself over HTTP: `/metrics` for Prometheus, `/healthz` and `/readyz` for whoever runs it.

Off unless `ottla.metrics.port` is set (`ottla serve --metrics-port`), and then on loopback unless `ottla.metrics.host` says
otherwise. Nothing of this package, prometheus_client included, is imported before that.

The numbers are plain integers beside the code that counts them (`Traffic` in server/partitions/traffic.py, `RequestCounts` in
server/dispatch/measured.py, listeners, log directories) or follow from what is there (logs, groups, the metadata image). They are
read when somebody asks, on the broker's own event loop and in slices, so that a scrape of many partitions keeps no client
waiting.

`table` lists every metric; `latency` makes quantiles of times; `exposition` turns rows into Prometheus' text; `health` judges;
`http` is the responder; `server` puts them together. docs/metrics.md is the list for users, and a test holds it to the table.
"""
