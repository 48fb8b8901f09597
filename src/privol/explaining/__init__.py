"""A released model by columns, with bands of the privacy noise: post-processing, at no cost."""

from .bands import ModelNoise, noise_of
from .explanation import Explanation, Shape, explain
from .probabilities import cut_of, of_scores, probabilities

__all__ = ["Explanation", "ModelNoise", "Shape", "cut_of", "explain", "noise_of", "of_scores", "probabilities"]
