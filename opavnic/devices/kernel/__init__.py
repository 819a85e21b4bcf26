"""What asks the kernel: mounts, sessions of FUSE, filters of system calls, memory of programs."""
