"""Optimizers of a user: the fixture `mine` copies this file. Most of them fail in one way, which their name says."""

import asyncio
import random
import time
from typing import Literal

import numpy as np
import optuna

from fmnas.optimizers import Optimizer, Suggestion


class Mutation(Optimizer):
    """The best so far with one variable drawn again, with probability `rate`."""

    def __init__(self, space, *, rate: float = 0.5, **others):
        super().__init__(space, **others)
        if not 0 <= rate <= 1:
            raise ValueError(f"rate = {rate}")
        self.rate = rate

    def _suggest(self, rng):
        sample = self.space.sample(rng)
        if not self.history or rng.random() > self.rate:
            return Suggestion(sample, "random")
        best = dict(min(self.history, key=lambda result: result[1].objective)[0].configuration)
        name = str(rng.choice(self.space.names))
        return Suggestion({**best, name: sample[name]}, "model")


class NoSuggest(Optimizer):
    """An abstract class."""


class CaveatFails(Mutation):
    @classmethod
    def caveat(cls, options):
        raise ValueError("no text")


class WarningFails(Mutation):
    @classmethod
    def config_warning(cls, options, plan):
        raise ValueError("no text")


class SuggestsOutside(Mutation):
    def _suggest(self, rng):
        return Suggestion({**self.space.sample(rng), "x1": 7.0}, "random")


class RestoreFails(Mutation):
    def restore(self, trial):
        raise ValueError("unknown trial")


class SuggestFails(Mutation):
    def _suggest(self, rng):
        raise RuntimeError("no idea")


class SuggestExits(Mutation):
    def _suggest(self, rng):
        raise SystemExit


class TellCancels(Mutation):
    def _observe(self, trial, evaluation):
        if len(self.history) > 1:
            raise asyncio.CancelledError("in tell")


class InitCancels(Mutation):
    def __init__(self, space, **others):
        raise asyncio.CancelledError


class InitExits(Mutation):
    def __init__(self, space, **others):
        raise SystemExit


class NoSuperInit(Optimizer):
    def __init__(self, space, *, seed=0):
        self.space = space

    def _suggest(self, rng):
        return Suggestion(self.space.sample(rng), "random")


class ChangesRecords(Optimizer):
    """Changes every record that it can reach."""

    def _suggest(self, rng):
        for trial in self.pending.values():
            trial.configuration.clear()
        sample = self.space.sample(rng)
        return Suggestion(sample, "random")

    def _observe(self, trial, evaluation):
        trial.configuration.update(x1=0.123, h1=None, added=1)
        object.__setattr__(trial, "origin", "model")
        object.__setattr__(evaluation, "objective", -100.0)

    def restore(self, trial):
        super().restore(trial)
        trial.configuration.clear()
        object.__setattr__(trial, "note", "changed")

    def forget(self, trial):
        trial.configuration.clear()
        super().forget(trial)


def not_a_class(): ...


class OwnSampler(optuna.samplers.RandomSampler):
    """A sampler of Optuna with options."""

    def __init__(self, seed: int | None = None, lucky: "float | None" = 0.5, rule=len):
        super().__init__(seed)


class AskTell:
    """The best so far with one variable drawn again; an object with ask and tell that does not import fmnas."""

    def __init__(self, space, seed, rate: float = 0.9):
        self.space, self.rng, self.rate, self.best = space, np.random.default_rng(seed), rate, None

    def ask(self):
        sample = self.space.sample(self.rng)
        if self.best is None or self.rng.random() > self.rate:
            return sample
        return {**self.best[1], "x1": np.float64(sample["x1"])}

    def tell(self, configuration, objective):
        if self.best is None or objective < self.best[0]:
            self.best = objective, configuration


def ask_tell_pair(space, seed, *, start: int):
    """Draws from the global generators, which the adapter seeds."""
    return lambda: space.sample(np.random.default_rng([start, random.getrandbits(30)])), lambda *results: None


class NotReproducible(AskTell):
    """Depends on more than its seed and results."""

    def ask(self):
        return self.space.sample(np.random.default_rng())


class AskHangs(AskTell):
    def ask(self):
        if self.best is not None:
            while True:
                time.sleep(0.01)
        return super().ask()


class TypedOptions(Mutation):
    """Options of several types, not all of them plain, and one option that is not keyword-only."""

    def __init__(
        self,
        space,
        steps: int | None = None,
        *,
        rule: Literal["a", "b"] = "a",
        values: list[int] = (),
        copy: int = 0,
        limit: float = None,  # noqa: RUF013
        **others,
    ):
        super().__init__(space, **others)


def any_options(space, seed, **options):
    assert options in ({"whatever": 5}, {"max-depth": 3, "lambda": 2})
    return AskTell(space, seed)


def star_arguments(*arguments, **options):
    assert options == {"whatever": 5}
    return AskTell(*arguments)


class NoSeed(AskTell):
    def __init__(self, space):
        super().__init__(space, 0)


class NoAsk(AskTell):
    ask = None


class Derived(Mutation):
    def __init__(self, space, *, depth: "Unknown" = 1, **others):  # noqa: F821
        super().__init__(space, **others)


def raises(space, seed):
    raise RuntimeError("no idea")
