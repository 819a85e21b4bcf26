"""The throughput of the load balancer: the pipeline alone, in a lab, and compared with a plain UDP relay."""
