"""A custom optimizer: pattern search around the best configuration with shrinking steps.

fmnas check examples/my_optimizer.py:PatternSearch
fmnas run examples/own_optimizers.yaml
"""

from fmnas.optimizers import Optimizer, Suggestion


class PatternSearch(Optimizer):
    """width: of the first steps, relative to a variable's range. rest: number of results until the steps are halved."""

    def __init__(self, space, *, seed=0, epochs=1, initial_design=(), width: float = 0.3, rest: int = 10):
        super().__init__(space, seed=seed, epochs=epochs, initial_design=initial_design)
        self.width, self.rest = width, rest

    def _suggest(self, rng):
        """Use `history`, a list of (trial, evaluation), and draw only from `rng`, which is new in each ask."""
        sample = self.space.sample(rng)
        if not self.history:
            return Suggestion(sample, "random")
        best, _ = min(self.history, key=lambda result: result[1].objective)
        step = self.width * 0.5 ** (len(self.history) // self.rest)
        near = dict(best.configuration)
        for variable in self.space.continuous:
            length = variable.high - variable.low
            moved = near[variable.name] + rng.normal(0.0, step * length)
            near[variable.name] = float(min(max(moved, variable.low), variable.high))
        for variable in self.space.discrete:
            if rng.random() < step:
                near[variable.name] = sample[variable.name]
        if not self.space.meets_constraints(near):
            return Suggestion(sample, "random", note="the step left the feasible region", fallback="fallback")
        return Suggestion(near, "model")
