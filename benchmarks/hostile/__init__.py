"""Tests of the running chain under interrupts and hostile peers."""
