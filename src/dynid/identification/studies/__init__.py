"""What can be asked of recordings beside a model: payloads, torque constants."""
