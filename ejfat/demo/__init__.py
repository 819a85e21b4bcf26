"""The demonstration: three sources, a load balancer, four workers on one virtual switch; one slows down, one dies."""
