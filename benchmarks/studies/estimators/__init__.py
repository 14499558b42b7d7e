"""Estimators of other papers beside the pipeline, and all of them on the same data; see docs/methods.md."""
