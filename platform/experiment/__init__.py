"""What an experiment leaves behind, and what follows from it: run directory, journal, state."""
