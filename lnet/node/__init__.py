"""A node: the LND over its devices, and the shell that runs it on HFI ports."""
