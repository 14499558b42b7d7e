"""Demos: the whole chain from motor current to a controller that uses the identified model, and bilateral control."""
