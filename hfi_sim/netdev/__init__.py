"""Network devices that an HFI port allocates: the border between the fabric and programs.

`base` says what a netdev is, `memory` is one without a kernel, `tap` is one of Linux.
"""
