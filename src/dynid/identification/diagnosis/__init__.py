"""Diagnosis of recorded data: tests of alternative interpretations, such as a wrong sign, that may fit better."""
