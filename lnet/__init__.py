"""lnet: o2iblnd channel bonding. Several HFIs act as one network interface, with failover and recovery.

`Lnd` makes the decisions and does no I/O; `LnetNode` runs it on HFI ports; `lnetctl` is the user interface.
Source: seed 004; the wire messages are those of the public o2iblnd.
"""
