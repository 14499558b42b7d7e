"""The running chain under interrupts and hostile peers."""
