"""Physical feasibility: consistent models, positive-definite projection, the all-pose audit."""
