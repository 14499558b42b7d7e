"""From signals to samples: sources, time axis, filters, derivatives, sets of samples."""
