"""The management agent of an HFI port (VEMA), and what it needs of a VNIC."""
