"""Two arms as one: bilateral control in joint space, and what stops both when something is wrong with either."""
