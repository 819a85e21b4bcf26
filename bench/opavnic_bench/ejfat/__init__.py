"""What the load balancer does per second: the pipeline alone, in a lab, and a plain UDP relay beside it."""
