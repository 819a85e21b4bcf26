"""The two gRPC services: `lb_service` for clients of the load balancer, `p4_service` for foreign control planes."""
