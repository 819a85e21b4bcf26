"""Reliable connections between HFI ports: in-order messages over 16B packets that may be lost.

`RcEndpoint` decides and does no I/O; `ReliableService` puts it on an `HfiPort`. What InfiniBand's reliable
connected transport promises, this does: a message arrives once and in order, or the connection is closed.
"""
