"""The parts of our own: Ethernet Manager, MAD socket, datapath, capture, fabric, control API."""
