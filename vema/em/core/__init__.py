"""The sans-IO Ethernet Manager: which MADs to send, and what the replies mean."""
