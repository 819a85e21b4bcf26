"""The engines that carry packets, and the driver that runs one on a clock."""
