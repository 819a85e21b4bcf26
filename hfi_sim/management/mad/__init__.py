"""The MAD stack of a port: agents, transactions with their retries, transfers of long messages."""
