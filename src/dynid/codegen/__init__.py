"""Programs generated from the equations of motion: emitted, compiled once, and run over millions of states."""
