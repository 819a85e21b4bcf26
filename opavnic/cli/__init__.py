"""The command line: one program, `opavnic`, one module for each group of commands."""
