"""Links that are slow, far, lossy, shared or looked at, between two hosts of a lab: `opavnic bench links`."""
