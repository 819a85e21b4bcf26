"""Guests, hosts that were there before the lab: a module for each kind, and `kinds` for all."""
