"""Messages and stubs of the two gRPC services, made from the .proto files here by `make proto`."""
