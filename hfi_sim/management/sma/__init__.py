"""The subnet management agent of HFIs and switches: what a subnet manager asks of them and sets."""
