"""Ray Tune's domains as ranges, wherever they stand in a configuration, and a configuration from their parameters.

| domain | range |
|---|---|
| uniform, loguniform | Interval |
| quniform, qloguniform | Grid of the multiples of q |
| randint, lograndint | Grid of step 1, without the upper bound |
| qrandint, qlograndint | Grid of the multiples of q, with the upper bound unless q is 1 |
| choice | Choices |

Normal distributions are refused, for they have no bounds; so are sample_from and grid_search, which leave nothing to
suggest, and domains in lists, which a suggestion could not be merged into.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ray.tune.search.sample import Categorical, Domain, Float, Integer, LogUniform, Normal, Quantized
from ray.tune.search.variant_generator import parse_spec_vars

from fmnas.integrations.ranges import Choices, Grid, Interval, Range
from fmnas.optimizers import OptimizerError

Keys = tuple[str, ...]
"""What leads to a parameter, in a dictionary of dictionaries."""

MULTIPLE_TOLERANCE = 1e-9  # of a bound that is a multiple of q but for rounding


def ranges_of(config: Mapping[str, Any]) -> dict[Keys, Range]:
    """The domains in a configuration of Tune's by their keys; OptimizerError for others."""
    _, domains, grids = parse_spec_vars(dict(config))
    for keys, _ in grids:
        raise OptimizerError(f"{in_words(keys)}: BOFMSearch takes no grid_search; use tune.choice")
    for keys, _ in domains:
        if not all(isinstance(key, str) for key in keys):
            raise OptimizerError(f"{in_words(keys)}: a domain in a list, or under a key that is no string; name it")
    found = {tuple(keys): _range(in_words(keys), domain) for keys, domain in domains}
    for keys, each in found.items():
        if each.count < 1:
            raise OptimizerError(f"{in_words(keys)}: {each} has no value; its low must not be above its high")
    return found


def _range(name: str, domain: Domain) -> Range:
    """What a domain allows."""
    sampler, q = domain.get_sampler(), None
    if isinstance(sampler, Quantized):
        sampler, q = sampler.get_sampler(), sampler.q
    log = isinstance(sampler, LogUniform)
    if isinstance(domain, Categorical):
        return Choices(tuple(domain.categories))
    if isinstance(sampler, Normal) or not isinstance(domain, Float | Integer):
        kind = f"{type(domain).__name__}, {sampler}"
        raise OptimizerError(
            f"{name}: a {kind} distribution: BOFMSearch takes uniform, loguniform, quniform, qloguniform, randint, "
            "lograndint, qrandint, qlograndint and choice"
        )
    low, high = domain.lower, domain.upper
    if isinstance(domain, Integer) and q in (None, 1):
        return Grid(low, high - 1, 1, log)  # Tune's integers end before the upper bound
    if q is None:
        return Interval(low, high, log)
    q = q if isinstance(domain, Integer) else float(q)
    return Grid(math.ceil(low / q - MULTIPLE_TOLERANCE) * q, math.floor(high / q + MULTIPLE_TOLERANCE) * q, q, log)


def in_words(keys: Iterable[Any]) -> str:
    """The keys as one name."""
    return "/".join(map(str, keys))


def nested(values: Iterable[tuple[Keys, Any]]) -> dict[str, Any]:
    """Parameters, each with the keys that lead to it, as a dictionary of dictionaries."""
    root: dict[str, Any] = {}
    for (*folders, last), value in values:
        node = root
        for key in folders:
            node = node.setdefault(key, {})
        node[last] = value
    return root
