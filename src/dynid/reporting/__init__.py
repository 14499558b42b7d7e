"""Tables, figures and the HTML report on the results of an identification."""
