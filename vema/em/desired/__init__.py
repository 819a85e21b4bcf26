"""What a configuration asks for, checked and worked out: virtual switches, members, MAC tables."""
