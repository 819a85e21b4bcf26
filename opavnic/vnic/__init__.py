"""A VNIC: its adapter, encapsulation and delivery of frames, the port that all VNICs of a host share."""
