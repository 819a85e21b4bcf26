"""Mutants of the modules that decide: `python -m tools.mutants`."""
