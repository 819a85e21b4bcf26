"""Commands about the program itself: manual pages, completion, dissectors, benchmarks, conformance."""
