"""Generated programs of the equations of motion: emitted as text, compiled once, and run over millions of states."""
