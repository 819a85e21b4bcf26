"""The control plane: decides which worker gets which share of the events, and from which tick on.

Sans-IO, like the data plane: members, weights, calendars and epochs are computed from the inputs and result in table
updates. The shells (`store`, `grpc`) do the I/O.
"""
