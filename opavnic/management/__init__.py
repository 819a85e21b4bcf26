"""MADs of a fabric for programs and people: the MAD socket, records, values, pictures of the fabric."""
