"""Labs whose authors are not trusted: what their files may say, and a check of them that ends."""
