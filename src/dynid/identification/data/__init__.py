"""Preparation of identification data: recordings, time axis, filters, derivatives and sets of samples."""
