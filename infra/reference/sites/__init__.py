"""The nine sites of the known suite by shape, under their host names: pages, data, and the truth of each."""
