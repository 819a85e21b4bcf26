"""What labs have made on this machine: their journals, proof of identity, and removal."""
