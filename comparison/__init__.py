"""From a table of trials to curves, tables, figures and a page. Knows nothing of drivers, Ray or MLflow."""
