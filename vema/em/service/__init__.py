"""The Ethernet Manager that runs: its core on a MAD stack, its requests, its checks of all agents."""
