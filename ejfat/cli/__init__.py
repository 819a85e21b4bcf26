"""`opavnic ejfat ...`: the commands of this package."""

from ejfat.cli.main import app

__all__ = ["app"]
