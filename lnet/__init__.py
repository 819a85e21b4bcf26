"""lnet: o2iblnd channel bonding, several HFIs used as one network interface, with failure and recovery.

`Lnd` decides and does no I/O; `LnetNode` puts it on HFI ports; `lnetctl` speaks to people.
Source: seed 004; the wire messages are those of the public o2iblnd.
"""
