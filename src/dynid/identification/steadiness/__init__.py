"""Tests whether one arm, with one set-up, was recorded from the first sample to the last."""
