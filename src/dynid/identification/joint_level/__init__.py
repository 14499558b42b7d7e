"""Joint-level identification: gain, time constant and dead time of single joints (arXiv:2605.15949, eq. 1)."""
