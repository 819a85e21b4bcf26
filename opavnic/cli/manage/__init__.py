"""Commands that manage a fabric: Ethernet Manager, fabric manager, MADs, faults."""
