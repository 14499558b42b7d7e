"""Tables, figures and the HTML report of results."""
