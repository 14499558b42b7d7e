"""Commands of `dynid` that need a checkout."""
