"""The performance management agent (PMA) of HFI ports and switches: class 0x04 with OPA's attributes."""
