"""LNet on the hosts of a lab: its services, questions to peers, the control API."""
