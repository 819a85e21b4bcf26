"""Clients of subnet administration: requests, and a picture of the fabric made from the replies."""
