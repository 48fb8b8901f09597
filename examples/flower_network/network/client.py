"""A node: its rows are in a CSV file that only this node has, with the target in the column "outcome"."""

from privol import open_stream
from privol.flower import KeptNode, node_app

from .shared import CLASSES, FEATURES, learner


def node(context):
    mine = context.node_config
    made = learner(mine.get("seed"))  # the seed is for tests alone
    return KeptNode(mine["directory"], made, node=mine["node"], n_features=FEATURES, classes=CLASSES)


def rows(context):
    stream = open_stream(context.node_config["rows"], target="outcome", classes=CLASSES)
    stream.count_rows()
    return stream


app = node_app(node, rows)
