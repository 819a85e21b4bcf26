"""Commands for the life of a lab: files, start, end, programs on its hosts."""
