"""Functions: those that cost nothing, and one's own."""
