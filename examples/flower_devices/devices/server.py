"""The learner: it asks one device after the other, and saves the model when all users have answered."""

from privol import LDPSGD
from privol.flower import learner_app
from privol.state import save_model


def begin(context):
    learner = LDPSGD(epsilon=2.0, radius=5.0, horizon=context.run_config["users"])
    return learner.declare_classes(["no", "yes"]), 4


def end(context, learner, played):
    print(played)
    print(learner.guarantee_.sentence())
    save_model(learner, context.run_config["model"])


app = learner_app(begin, end)
