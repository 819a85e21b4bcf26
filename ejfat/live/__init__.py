"""The shells: the load balancer as a node on a network, and senders and receivers on sockets."""
