"""The server: it carries what nodes send to their neighbours, and keeps the model."""

import numpy as np

from privol.flower import Network, network_app

from .shared import CLASSES, FEATURES, learner


def begin(context):
    return Network(learner(context.run_config.get("seed")), FEATURES, CLASSES)


def end(context, model):
    np.savez(context.run_config["model"], coef=model.coef, intercept=model.intercept)


app = network_app(begin, end)
