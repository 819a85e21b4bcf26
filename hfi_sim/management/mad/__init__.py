"""The MAD stack of a port: agents, what is sent with its retries, transfers of long messages."""
