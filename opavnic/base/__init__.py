"""The lowest floor: errors, files, signals, sockets, logs."""
