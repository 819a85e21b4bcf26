"""Where the netdevs of hosts are made: TAPs of Linux, or netdevs in memory."""
