"""The common part of the calls that look into a broker or seed it: finding what a test names, reading and appending records,
texts."""
