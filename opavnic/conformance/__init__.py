"""Runners for recorded test vectors: what went into the Linux driver, and what came out.

Each runner takes the cases of a file and returns a `Result`; the command line prints it. They run with the
driver's quirks on, since the driver is what was recorded.
"""
