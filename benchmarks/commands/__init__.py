"""`./run benchmark`: figures that can be measured again; one file per benchmark, each with a `register(group)`."""
