"""An optimizer of one's own: pattern search, which looks around the best so far at a distance that shrinks.

fmnas check examples/my_optimizer.py:PatternSearch
fmnas run examples/own_optimizers.yaml
"""

from fmnas.optimizers import Optimizer, Suggestion


class PatternSearch(Optimizer):
    """width: of the first steps, as a share of a variable's range. rest: how many results go by before it halves."""

    def __init__(self, space, *, seed=0, epochs=1, initial_design=(), width: float = 0.3, rest: int = 10):
        super().__init__(space, seed=seed, epochs=epochs, initial_design=initial_design)
        self.width, self.rest = width, rest

    def _suggest(self, rng):
        """Asks see `history`, a list of (trial, evaluation), and draw from `rng`, which belongs to this ask."""
        anew = self.space.sample(rng)
        if not self.history:
            return Suggestion(anew, "random")
        best, _ = min(self.history, key=lambda told: told[1].objective)
        step = self.width * 0.5 ** (len(self.history) // self.rest)
        near = dict(best.configuration)
        for variable in self.space.continuous:
            length = variable.high - variable.low
            moved = near[variable.name] + rng.normal(0.0, step * length)
            near[variable.name] = float(min(max(moved, variable.low), variable.high))
        for variable in self.space.discrete:
            if rng.random() < step:
                near[variable.name] = anew[variable.name]
        if not self.space.meets_constraints(near):
            return Suggestion(anew, "random", note="the step left the feasible region", fallback="fallback")
        return Suggestion(near, "model")
