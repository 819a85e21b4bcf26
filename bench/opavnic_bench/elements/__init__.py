"""Benchmarks of single elements: EM, engine, fabric, MAD stack."""
