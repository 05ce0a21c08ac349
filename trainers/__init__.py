"""What one evaluation is: data, network, FLOPs, the training itself, and synthetic problems."""
