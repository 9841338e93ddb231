"""Requests and answers as they were, in a ring that forgets the oldest, without what proves who somebody is."""
