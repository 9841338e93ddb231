"""Hours of load on two brokers, one of which is killed every minute: does anything grow? __main__.py says how to run it."""
