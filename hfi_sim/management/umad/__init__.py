"""user_mad: MADs for programs, as the kernel's ib_umad and ib_mad modules give them. Sans-IO.

A `UmadPort` is what a device file umadN stands for; each program that opens it has a `UmadFile`. `UmadService` joins a
port to the MAD stack of an HFI. The carrier of files to programs (FUSE, in `opavnic.devices`) is not known here.
"""
