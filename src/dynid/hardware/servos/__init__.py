"""Servo models as data: `registers.csv` lists the control table, `models.csv` what each model has of its own."""
