"""Demos: all steps from motor currents to control with the identified model, and two arms as leader and follower."""
