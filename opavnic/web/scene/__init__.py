"""What the pages show, made from the state of a lab. No page knows where it comes from."""
