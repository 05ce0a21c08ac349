"""Where trials are evaluated: pools of workers, in this process or on Ray."""
