"""The shells: the load balancer as a node on a network, senders and receivers on sockets."""
