"""Packets in words: one line for each, or a line for each field."""
