"""Bilateral control of two arms in joint space, and the checks that stop both arms if one of them fails."""
