"""The benchmark of the web view."""
