"""Identification of arms with elastic joints, from measured positions of both links and motors."""
