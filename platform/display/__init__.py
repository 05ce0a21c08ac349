"""Output for users and programs: progress, status and results."""
