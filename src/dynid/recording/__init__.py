"""Readers and writers of recordings: bags, CSV files and data sets."""
