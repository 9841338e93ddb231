"""The calls of the kit as Python's objects and methods, for `ottla.testing.Broker`: the same as over HTTP."""
