"""What most people should use: an encoding that is learnt privately and the learner behind it, as one estimator."""

from .estimators import PrivateClassifier, PrivateRegressor

__all__ = ["PrivateClassifier", "PrivateRegressor"]
