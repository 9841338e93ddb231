"""Tests of how much work the broker does for one request before anybody else comes (test_every_api.py)."""
