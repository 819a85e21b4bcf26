"""Device files and sysfs of a host's HFIs, for programs that expect those of a machine with Omni-Path.

`tree` says what files there are, `hfi_tree` which ones an HFI has, `filesystem` serves them by the FUSE protocol,
all of that is sans-IO. In `kernel`, `session` runs it for one mount, `mounts` and `seccomp` set it up in the process
that becomes a program, `entry` is what that one and the lab say to each other; `seccomp` answers the one ioctl that no
FUSE file can.
"""
