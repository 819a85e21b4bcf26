"""A lab that runs: its start and end, its process, its status, its routes on the control API."""
