"""Tables, figures, reports."""
