"""`./run benchmark`: reproducible figures; one file per benchmark, each with a `register(group)`."""
