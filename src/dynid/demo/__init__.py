"""The demos: the whole chain from motor current to a controller that uses the model, and two arms as one."""
