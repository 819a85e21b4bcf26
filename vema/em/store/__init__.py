"""What an Ethernet Manager remembers over a restart, in a database or in memory."""
