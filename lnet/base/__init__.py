"""Errors, and network ids (NIDs)."""
