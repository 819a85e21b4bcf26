"""hfi_sim: the lowest floor, what the HFI1 driver, the hardware and the IB core are on a real machine.

It holds the 16B wire format, HFIs with their ports, links, switches, the subnet manager, the MAD stack, and
the network devices (TAP or in memory) that an HFI port can allocate. It knows nothing of virtual Ethernet
switches' configuration: that is `vema` (the management half) and `opavnic` (the netdev half), one floor up.
"""
