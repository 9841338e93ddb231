"""The versions of APIs that a broker pretends to serve: an older release's, or fewer than its own."""
