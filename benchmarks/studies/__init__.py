"""Studies in addition to the pipeline: payloads, torque constants, many joints, elastic joints, other estimators."""
