"""Messages and stubs of the gRPC services, made from the .proto files here by tools/build_backend.py."""
