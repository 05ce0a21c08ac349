"""A multilayer perceptron on scikit-learn's digits: the protocol of HyBO's neural network, on other data.

    objective = the error on 540 digits of a network trained on 1,257 others

| variable | values |
|---|---|
| hidden_units | 40, 60, ..., 300, in order: one hidden layer |
| activation | identity, logistic, tanh, relu |
| batch_size | 40, 60, ..., 200, in order |
| learning_rate | constant, invscaling, adaptive: the schedule |
| early_stopping | False, True: whether to stop by a tenth of the training rows |
| learning_rate_init | [0.001, 1] |
| momentum | [0.5, 1] |
| alpha | [0.0001, 1], weight of the L2 penalty |

It is scikit-learn's MLPClassifier with SGD, at most 200 epochs and random_state 2: a function of the variables, on one
machine. Its minimum is unknown. HyBO and GEBO use the table `segment` of OpenML, which is not shipped: their values
cannot be compared with these. Of their two protocols this is HyBO's; GEBO's uses Adam, for which two of its variables
have no effect. As there, the inputs are scaled with all rows. A training that diverges, which scikit-learn ends with an
error, has the error of guessing, 0.9.

80 random points gave 0.019 to 0.920, with a median of 0.081, in 0.5 seconds each on average
(`python benchmarks/scales.py --problems mlp_digits --points 80`).
"""

import warnings
from functools import partial

import numpy as np

from fmnas.search_spaces import Configuration, Nominal, Ordinal, Real, Space
from fmnas.trainers.split import GUESSING_ERROR, Split
from fmnas.trainers.tables.tables import digits_table, table_problem

SPACE = Space(
    [
        Ordinal("hidden_units", tuple(range(40, 301, 20))),
        Nominal("activation", ("identity", "logistic", "tanh", "relu")),
        Ordinal("batch_size", tuple(range(40, 201, 20))),
        Nominal("learning_rate", ("constant", "invscaling", "adaptive")),
        Nominal("early_stopping", (False, True)),
        Real("learning_rate_init", 0.001, 1.0),
        Real("momentum", 0.5, 1.0),
        Real("alpha", 0.0001, 1.0),
    ]
)


def error(split: Split, configuration: Configuration) -> float:
    """The objective."""
    from sklearn.neural_network import MLPClassifier
    from threadpoolctl import threadpool_limits

    parameters = dict(configuration)
    units = parameters.pop("hidden_units")
    network = MLPClassifier(hidden_layer_sizes=(units,), solver="sgd", random_state=2, **parameters)
    with warnings.catch_warnings(), threadpool_limits(1):  # more threads wait for each other on busy cores
        warnings.simplefilter("ignore")  # that 200 epochs were too few, and overflows
        try:
            network.fit(split.train_inputs, split.train_labels)
        except ValueError as raised:
            if "non-finite" not in str(raised):
                raise
            return GUESSING_ERROR
        predictions = network.predict(split.held_out_inputs)
    return float(np.mean(predictions != split.held_out_labels))


MLP_DIGITS = table_problem(
    SPACE,
    error,
    partial(digits_table, scaled=True),
    dataset="digits",
    penalty=1.0,
    objective="The objective is the error on 540 digits of a network trained on 1,257 others.",
)
"""The problem on scikit-learn's digits."""
