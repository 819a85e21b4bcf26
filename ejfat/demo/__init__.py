"""The demonstration: three sources, a load balancer and four workers, of which one slows down and one is killed."""
