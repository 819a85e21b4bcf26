"""`opavnic ejfat ...`: what this package adds to the command line."""

from ejfat.cli.main import app

__all__ = ["app"]
