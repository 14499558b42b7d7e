"""Physical feasibility: consistent models, positive-definite projection, and the audit over all poses."""
