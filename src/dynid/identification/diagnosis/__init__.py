"""How recorded data would have to be read to be explained better: what may be wrong with them, by trying."""
