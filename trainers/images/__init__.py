"""Images: the joint problem, its network and how that is trained. Needs torch and numpy alone."""
