"""The sites of the suites by shape, under their host names: pages, data, and the truth of each."""
