"""The Ethernet Manager as a program on a umad device: no lab, no simulated fabric, no TAP."""
