"""Studies of methods beside the paper: many joints, elastic joints."""
