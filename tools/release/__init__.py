"""Builds sdist, wheel and Debian packages, and tries them where there is no compiler (`make dist`)."""
