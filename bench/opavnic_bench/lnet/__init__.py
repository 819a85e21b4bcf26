"""The benchmark of LNet."""
