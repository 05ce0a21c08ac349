"""What drives an experiment: the loops, the commands' work in a run directory, the results."""
