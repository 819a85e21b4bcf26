"""Markers and fixtures of `opavnic.pytest_plugin`."""
