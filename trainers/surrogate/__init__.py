"""A surrogate of the joint problem: what recorded trainings say of those that were not recorded."""
