"""MLflow: what is logged, by a reconciler that runs in the background, and the UI."""
