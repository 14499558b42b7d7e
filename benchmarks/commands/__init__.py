"""`./run benchmark`: figures that anybody can measure again; one file per benchmark, each with a `register(group)`."""
