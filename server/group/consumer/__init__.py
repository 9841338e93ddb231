"""Consumer groups (KIP-848): the broker assigns, members send heartbeats and are led to their assignment one by one."""
