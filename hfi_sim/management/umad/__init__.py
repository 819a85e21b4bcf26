"""user_mad: MADs for programs, as the kernel's ib_umad module gives them on top of ib_mad.

A `UmadService` is what a device file umadN stands for; each program that opens it has a `UmadFile`. Like ib_mad,
the MAD stack of the port repeats what they send, does RMPP and finds the request of a response. The carrier of files
to programs (FUSE, in `opavnic.devices`) is not known here.
"""
