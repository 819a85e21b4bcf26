"""EJFAT: the UDP load balancer, its control plane, senders and receivers.

A stream is cut into events; every packet of an event carries the same tick. The load balancer maps a tick to an
epoch, the epoch and a slot number to a member, the member to an address, and rewrites the packet: all packets of
an event meet at one worker. The control plane reshapes the map from the workers' feedback, one epoch after the
other, without ever moving an event that is under way.
"""
