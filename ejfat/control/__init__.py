"""The control plane: who gets which share of the events, from which tick on.

Pure like the data plane: members, weights, calendars and epochs are computed from what is handed in, and come out
as table updates. The shells (`store`, `grpc`) do the I/O.
"""
