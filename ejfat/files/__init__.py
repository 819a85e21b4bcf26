"""The pipeline on files: captures that go through it, and test vectors."""
