"""Joint-level identification: gain, time constant and dead time of one joint at a time (arXiv:2605.15949, eq. 1)."""
