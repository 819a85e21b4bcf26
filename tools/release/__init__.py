"""Builds what is handed out, sdist and wheel, and tries it where there is no compiler (`make dist`)."""
