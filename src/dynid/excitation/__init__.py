"""Design of excitation motions, optimised for all joints or with one joint moving at a time; see docs/methods.md."""
