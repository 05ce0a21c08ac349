"""proto"""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal
import os
import numpy as np
import torch
from annotated_types import Interval
from torch import Tensor

from fmnas.baselines.exp3 import EXP3, exploration_rate
from fmnas.baselines.graph_autoencoder import GraphAutoencoder, WIDTH, Encoder
from fmnas.optimizers import Optimizer, Suggestion, random_design
from fmnas.optimizers.bayesian import INITIAL_POINTS
from fmnas.optimizers.gp.acquisition import LowerConfidenceBound
from fmnas.optimizers.gp.autograd_kernel import PairKernel
from fmnas.optimizers.gp.fit import FitSettings, Surrogate
from fmnas.optimizers.gp.bfgs import Box
from fmnas.optimizers.gp.kernel import matern52
from fmnas.optimizers.gp.parameters import Constant, LogUniform, Parameter
from fmnas.optimizers.gp.points import Points, is_new, sample_new, standardise, unfittable_reason
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import SearchSettings, Surface, alternating_search, best_of
from fmnas.optimizers.isolation import one_thread
from fmnas.optimizers.optimizer import check_budget
from fmnas.search_spaces import Real, Space
from fmnas.search_spaces.records import FALLBACK, MODEL, RANDOM

LATENT = Space([Real(f"z{i}", 0.0, 1.0) for i in range(WIDTH)])
from fmnas.baselines.bodi import DictionaryKernel, DictionaryPairs
class LatentKernel(DictionaryKernel):
    noise = Parameter("noise", 1, (0.1, 0.1), Constant(0.1))
    def __init__(self):
        super().__init__(LATENT, torch.zeros(0, 0, dtype=torch.int64))
        self.parameters = (Parameter("theta", 1, (1e-4, 3.0), LogUniform(-2.0, 1.1)),)
    def pairs(self, points):
        i, j = torch.triu_indices(len(points), len(points))
        return DictionaryPairs((points.C[i] - points.C[j]).square().sum(1, keepdim=True))
    def condition_on(self, values, points):
        return super().condition_on({"theta": values["theta"].expand(WIDTH)}, points)

def grow(hubs, N, draws, threshold=3):
    A = np.zeros((N, N)); hubs = sorted(set(hubs))
    A[np.ix_(hubs, hubs)] = 1.0; np.fill_diagonal(A, 0)
    w = np.zeros(N); w[hubs] = np.maximum(threshold, len(hubs) - 1)
    for node, u in zip([v for v in range(N) if v not in hubs], draws):
        c = w.cumsum(); t = int(np.searchsorted(c, u * c[-1], side="right"))
        A[node, t] = A[t, node] = 1; w[node] += 1; w[t] += 1
    return A

MODE = os.environ.get("GEBO", "")

class GEBO(Optimizer):
    def __init__(self, space, *, evaluations=None, initial_design=None, seed=0, log_objective=False, **others):
        design = random_design(space, INITIAL_POINTS, seed) if initial_design is None else initial_design
        super().__init__(space, seed=seed, initial_design=design, **others)
        self.log_objective = log_objective
        self.pulls = 100 if evaluations is None else max(evaluations - len(self.initial_design), 1)
        self.started = False; self.codes = {}
        self.K = 5
        self.stats = {}

    def _draw_graph(self, rng):
        N = len(self.space)
        hubs = rng.choice(N, size=3, p=self.nodes.probabilities)
        hubs = sorted(set(hubs.tolist()))
        return hubs, grow(hubs, N, rng.random(N - len(hubs)))

    def _start(self):
        self.started = True
        rng = np.random.default_rng([self.seed, 0, 0x6E])
        N = len(self.space)
        self.arms = EXP3(exploration_rate(self.K, self.pulls), np.zeros(self.K))
        self.nodes = EXP3(exploration_rate(N, self.pulls), np.zeros(N))
        self.graphs = [self._draw_graph(rng) for _ in range(self.K)]
        self.failures = [0] * self.K
        self.ae = GraphAutoencoder(self.space, [g for _, g in self.graphs], rng)
        for k in range(self.K): self._train(k, rng, 1e3)

    def y(self):
        y = np.array([e.objective for _, e in self.history]); return np.log(y) if self.log_objective else y

    def X(self):
        return np.array([self.codes[t.id] for t, _ in self.history] + [self.codes[i] for i in self.pending]).reshape(-1, len(self.space))

    def _register(self, trial):
        super()._register(trial); self.codes[trial.id] = self.space.encode(trial.configuration)

    def _train(self, k, rng, c=1e-2):
        y = self.y(); n = len(y)
        rank = (y[None] < y[:, None]).sum(1)
        w = 1 / (c * n + rank); w /= w.sum()
        steps, batch = int(os.environ.get("STEPS", 1)), int(os.environ.get("BATCH", 5))
        if steps < 0: steps = -(-n // batch)
        X = torch.from_numpy(self.X()); Y = torch.from_numpy(y); W = torch.from_numpy(w)
        e = self.ae.encoders[k]; a = self.ae
        P = [e.V, e.bias, a.embedding, a.embedding_bias, a.batch_scale, a.batch_bias, a.hidden, a.hidden_bias, a.layer_scale, a.layer_bias, a.output, a.output_bias]
        m = [torch.zeros_like(q) for q in P]; v = [torch.zeros_like(q) for q in P]
        lr = float(os.environ.get("LR", 0.05))
        for t in range(1, steps + 1):
            i = rng.choice(n, size=batch, p=w)
            more = ()
            if "metric" in MODE:
                gaps = np.abs(y[i][:, None] - y[None]); far = gaps.argmax(1); near = np.where(gaps == 0, np.inf, gaps).argmin(1)
                yy = lambda o: np.log(np.abs(y[i] - y[o] + 1e-6))
                more = (X[near], X[far], torch.from_numpy(yy(far) - yy(near)))
            with torch.enable_grad():
                g = torch.autograd.grad(a.loss(k, X[i], Y[i], W[i] * (1 / W[i].sum() if "wnorm" in MODE else 1), torch.from_numpy(rng.standard_normal((batch, WIDTH))), *more), P)
            with torch.no_grad():
                for q, gg, mm, vv in zip(P, g, m, v):
                    mm.mul_(0.9).add_(gg, alpha=0.1); vv.mul_(0.999).add_(gg * gg, alpha=0.001)
                    q -= lr * (mm / (1 - 0.9**t)) / ((vv / (1 - 0.999**t)).sqrt() + 1e-8)

    def _observe(self, trial, evaluation):
        if not trial.memo: return
        with one_thread():
            k = int(trial.memo[0]); y = self.y(); rng = np.random.default_rng([self.seed, trial.id, 0x6E])
            if trial.origin == MODEL:
                R = (y.max() - y[-1]) / max(y.max() - y.min(), 1e-300)
                if "rank" in MODE: R = (y > y[-1]).mean()
                if "sign" in MODE: R = y[-1]
                p = self.arms.probabilities; hubs = self.graphs[k][0]
                lw = self.nodes.log_weights.copy()
                for v in hubs:
                    s = sum(p[j] for j in range(self.K) if v in self.graphs[j][0])
                    lw[v] += R / p[k] * self.nodes.gamma / (len(hubs) * len(lw) * s)
                self.nodes = replace(self.nodes, log_weights=lw.clip(-30, 30))
                self.arms = self.arms.update(k, R)
            if y[-1] > y.min(): self.failures[k] += 1
            if "before" not in MODE: self._train(k, rng)
            if self.failures[k] > 5:
                self.failures[k] = 0
                self.graphs[k] = self._draw_graph(rng)
                self.ae.encoders[k] = Encoder.draw(self.graphs[k][1], rng)
                w = np.exp(self.arms.log_weights); w[k] = 0; w *= (self.K - 1) / w.sum(); w[k] = 1
                self.arms = replace(self.arms, log_weights=np.log(w))

    def _suggest(self, rng):
        y = self.y()
        if reason := unfittable_reason(y):
            return self._random(rng, reason)
        with one_thread():
            if not self.started: self._start()
            k = int(rng.choice(self.K, p=self.arms.probabilities))
            if "before" in MODE: self._train(k, np.random.default_rng([self.seed, len(y), 0x6E]))
            X = self.X()
            z = self.ae.encode(k, torch.from_numpy(X))
            pts = lambda z: Points(z, torch.zeros(len(z), 1, dtype=torch.int64))
            fit = Surrogate(LatentKernel(), FitSettings(starts=5, screening=int(os.environ.get("SCR", 4)), finalists=1, warm=False, smooth=False, prior=False, plug_in=True, subset=int(os.environ.get("SUB", 64)))).fit(pts(z[:len(y)]), torch.from_numpy(standardise(y)), rng)
            post = fit.posterior
            l = float(post.parameters["theta"])
            self.l = l
            if "l1" in MODE: l = 1.0
            m = l * (z.std(0, correction=0) + 1e-6)
            region = Region(LATENT, box=Box(z.min(0).values - m, z.max(0).values + m))
            surface = Surface(post, LowerConfidenceBound(2.0))
            sample = region.sample(rng, int(os.environ.get("NS", 5000)))
            v = surface.value(sample)
            order = v.argsort(descending=True)
            starts = sample.select(order[:3])
            C, _ = surface.climb(starts, region, 30, 1e-6)
            cand = torch.cat([C, sample.C[order]])
            for j, part in enumerate(cand.split(64)):
                D = self.ae.decode(part)
                good = self.space.feasible(D, strictly=True) & is_new(D, X)
                if good.any():
                    i = int(good.argmax())
                    self.stats[(j, i)] = self.stats.get((j, i), 0) + 1
                    return Suggestion(self.space.decode(D[i]), MODEL, memo=(k,))
        return self._random(rng, "none", (k,))

    def _random(self, rng, note, memo=()):
        x = sample_new(self.space, self.X(), rng)
        return Suggestion(self.space.decode(x), RANDOM, note=note, memo=memo, fallback=FALLBACK)
