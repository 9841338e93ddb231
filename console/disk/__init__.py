"""A data directory, ottla's or Apache Kafka's, as a console shows it: logs, files, batches and records as they lie there."""
