"""From a recording to an accepted model."""
