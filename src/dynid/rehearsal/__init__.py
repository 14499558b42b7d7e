"""What a process does once, on dummy data, before it takes part in anything: compile, load, import."""
