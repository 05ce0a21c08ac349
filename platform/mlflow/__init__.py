"""MLflow: what it is told, how its store is found, and its UI."""
