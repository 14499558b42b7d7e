"""Servo models as data: `registers.csv` holds the control table, `models.csv` the values specific to each model."""
