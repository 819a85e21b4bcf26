"""The commands of `opavnic bench`."""
