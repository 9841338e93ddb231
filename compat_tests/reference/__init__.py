"""Apache Kafka itself, the oracle of the tests: its jars, which Maven fetches, and a broker made of them."""
