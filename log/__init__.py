"""A partition on disk in Kafka's format, from append to deletion; synchronous."""
