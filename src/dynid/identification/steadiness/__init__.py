"""Tests for changes of the arm or its set-up between the first and the last recorded sample."""
