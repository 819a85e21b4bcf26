"""The ground: errors, files, signals, sockets, logs."""
