"""Robot pushing in 14 dimensions: two robots push two objects towards their goals (Wang et al. 2018).

| variable | values | robot 1 | robot 2 |
|---|---|---|---|
| h1..h4 | 0..10, ordered | place at the start: h1 - 5, h2 - 5 | h3 - 5, h4 - 5 |
| h5..h8 | 0..20, ordered | velocity that it is driven to: h5 - 10, h6 - 10 | h7 - 10, h8 - 10 |
| h9, h10 | 0..28, ordered | hundredths of a second for which it is driven: 10 (h9 + 2) | 10 (h10 + 2) |
| x1, x2 | [-1, 1] | angle of its hand at the start: pi (x1 + 1) | pi (x2 + 1) |
| x3, x4 | [-1, 1] | angular velocity that it is driven to: 5 (x3 + 1) | 5 (x4 + 1) |

    objective = the objects' distances from their goals at the end, less those at the start, 11.073 in all

A robot is a rectangular hand on a table with friction. Of each velocity's two components one draw of N(0, 0.01^2) is
added, by the trial's seed, so evaluations are noisy. The form is HyBO's and GEBO's (Deshwal et al. 2021), with
Box2D's engine: hands rotate in one direction only, at up to 10, which is twice what the simulator's authors allowed.
Without the noise the values are those of the published code; Box2D has single precision, so they may differ in the
fifth digit on another machine. Nothing reaches below -11.073; the minimum is unknown.

At most random points neither object moves, and the value is 0. Of 20,000 of them the least was -6.1 and the largest
29.1 (`python benchmarks/scales.py --problems robot_pushing --points 20000 --seed 1`). GEBO's paper prints -4.138
(standard deviation 0.196 over 10 runs) for 40 initial points and then 60 seconds. It needs the package box2d.
"""

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fmnas.search_spaces.variables import Floats
from fmnas.trainers.contract import optional_module
from fmnas.trainers.functions.objective import FunctionTrainer
from fmnas.trainers.functions.synthetic import mixed_space
from fmnas.trainers.problem import Problem

Place = tuple[float, float]

STARTS: tuple[Place, ...] = ((0.0, 2.0), (0.0, -2.0))
GOALS: tuple[Place, ...] = ((4.0, 3.5), (-4.0, 3.5))
"""Where the square and the disc should end."""
NOISE = 0.01
"""The standard deviation of each component of a velocity."""

STEP, ITERATIONS = 0.01, 10
"""Seconds, and the iterations of Box2D's solver for velocities and for positions."""
STEPS_AFTER = 100
"""Steps after both robots stopped driving."""
GAIN = 30.0
"""The force on a hand is mass x (wanted - actual velocity) x GAIN; the torque likewise."""

SPACE = mixed_space(4, (11,) * 4 + (21,) * 4 + (29,) * 2, ordered=True)


@dataclass(frozen=True)
class Push:
    """What a robot does: its place and angle at the start, and for how many steps it is driven to which velocities."""

    place: Place
    angle: float
    velocity: Place
    angular_velocity: float
    steps: int


def decode_pushes(configuration: Mapping[str, Any], noise: Floats) -> Iterator[Push]:
    """Yield each robot's push. noise: added to the velocities [robots, 2]."""
    for robot in (0, 1):
        i, j = 2 * robot + 1, 2 * robot + 2
        yield Push(
            place=(configuration[f"h{i}"] - 5.0, configuration[f"h{j}"] - 5.0),
            angle=math.pi * (configuration[f"x{1 + robot}"] + 1.0),
            velocity=(
                configuration[f"h{4 + i}"] - 10.0 + float(noise[robot, 0]),
                configuration[f"h{4 + j}"] - 10.0 + float(noise[robot, 1]),
            ),
            angular_velocity=5.0 * (configuration[f"x{3 + robot}"] + 1.0),
            steps=10 * (configuration[f"h{9 + robot}"] + 2),
        )


def import_box2d() -> Any:
    """Return the package. Raises TrainerError without it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns, and crashes the interpreter if warnings are errors
        return optional_module("Box2D", "robot_pushing")


def simulate(pushes: tuple[Push, ...]) -> tuple[Place, ...]:
    """Return the places of the square and the disc at the end. Raises TrainerError without Box2D."""
    box2d = import_box2d()
    world = box2d.b2World(gravity=(0.0, 0.0), doSleep=True)
    table = world.CreateStaticBody()

    def add_body(place: Place, shape: Any, density: float, friction: float, force: float, angle: float = 0.0) -> Any:
        """force: the largest of the friction with the table."""
        fixture = box2d.b2FixtureDef(shape=shape, density=density, friction=friction)
        body = world.CreateDynamicBody(position=place, angle=angle, fixtures=fixture)
        world.CreateFrictionJoint(bodyA=table, bodyB=body, maxForce=force, maxTorque=2.0)
        return body

    shapes = box2d.b2PolygonShape(box=(0.5, 0.5)), box2d.b2CircleShape(radius=1.0)
    objects = [add_body(at, shape, 0.05, 0.01, 5.0) for at, shape in zip(STARTS, shapes, strict=True)]
    hands = [add_body(push.place, box2d.b2PolygonShape(box=(1.0, 0.3)), 0.1, 0.1, 2.0, push.angle) for push in pushes]
    driven = [
        (hand, hand.mass, box2d.b2Vec2(*push.velocity), push.angular_velocity, push.steps)
        for hand, push in zip(hands, pushes, strict=True)
    ]
    for step in range(max(push.steps for push in pushes) + STEPS_AFTER):
        for hand, mass, velocity, angular_velocity, steps in driven:
            if step < steps:
                hand.ApplyTorque(mass * (angular_velocity - hand.angularVelocity) * GAIN, True)
                hand.ApplyForce(mass * (velocity - hand.linearVelocity) * GAIN, hand.position, True)
        world.Step(STEP, ITERATIONS, ITERATIONS)
    return tuple((body.position[0], body.position[1]) for body in objects)


def distance_change(configuration: Mapping[str, Any], noise: Floats) -> float:
    """Return the objective for draws of the noise [robots, 2]."""
    ends = simulate(tuple(decode_pushes(configuration, noise)))
    return math.fsum(map(math.dist, ends, GOALS)) - math.fsum(map(math.dist, STARTS, GOALS))


def robot_pushing(configuration: Mapping[str, Any], seed: int) -> float:
    """Return the objective with the noise of a seed. Raises TrainerError without Box2D."""
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    return distance_change(configuration, rng.normal(0.0, NOISE, (2, 2)))


def load() -> None:
    """Raise TrainerError without Box2D, before anything runs."""
    import_box2d()


ROBOT_PUSHING = Problem(
    space=SPACE,
    build=lambda data, hardware: FunctionTrainer(SPACE, robot_pushing),
    penalty=40.0,
    objective="The objective is how much farther from their goals the objects are than at the start.",
    load=load,
)
