"""What a fabric is made of: HFIs, switches, their ports, and the cables between them."""
