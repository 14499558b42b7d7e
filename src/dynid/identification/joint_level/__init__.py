"""Joint-level identification: gain, time constant and dead time of one joint at a time (eq. 1)."""
