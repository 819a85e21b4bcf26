"""What the pages show: the fabric, a VNIC, the timeline, apps and parts."""
