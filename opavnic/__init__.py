"""opavnic: the top floor, VNIC adapters on HFI ports, the lab that builds whole fabrics, and the command line."""
