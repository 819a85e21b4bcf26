"""EJFAT: the UDP load balancer, its control plane, senders and receivers.

A stream is cut into events; every packet of an event carries the same tick. The load balancer maps a tick to an
epoch, the epoch and a slot number to a member, and the member to an address, and rewrites the packet, so that all
packets of an event reach one worker. The control plane adjusts the mapping to the workers' feedback, one epoch after
the other, without moving an event that is in flight.
"""
