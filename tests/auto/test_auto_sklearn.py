"""scikit-learn's own conformance checks on the estimators of tables, and its tools around them."""

from __future__ import annotations

import math

from sklearn.utils.estimator_checks import parametrize_with_checks

from privol import PrivateClassifier, PrivateRegressor

# Without noise, and with so little that it does not decide the checks' small problems; rows that partial_fit has.
MODELS = [
    PrivateClassifier(epsilon=math.inf),
    PrivateRegressor(epsilon=math.inf),
    PrivateClassifier(epsilon=1e6, random_state=0),
    PrivateRegressor(epsilon=1e6, random_state=0),
]


@parametrize_with_checks(MODELS)
def test_checks(estimator, check):
    check(estimator)
