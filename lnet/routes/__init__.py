"""Which route a message takes: channel bonding, Multi-Rail, and recovery."""
