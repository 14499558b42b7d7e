"""An identified model at run time: compiled calls, the controller of a loop, and the same as C."""
