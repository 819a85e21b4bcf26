"""Commands for packets: captures, and single ones field by field."""
