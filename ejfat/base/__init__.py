"""Errors, addresses, and the reasons for dropping a frame."""
