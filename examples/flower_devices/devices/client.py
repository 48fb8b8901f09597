"""A user's device: its row is in a file that only this device has, four numbers and 1 for "yes" or 0 for "no"."""

import json

from privol.flower import device_app
from privol.rounds import KeptDevice


def device(context):
    """The owner's limits: one report, of pure epsilon 2 at most, whoever asks."""
    node = context.node_config
    seed = node.get("seed")  # for tests alone: without it nobody can reproduce the noise
    return KeptDevice(node["device"], n_features=4, epsilon=2.0, random_state=seed)


def row(context, number):
    with open(context.node_config["row"], encoding="utf-8") as file:
        *x, y = json.load(file)
    return x, y


app = device_app(device, row)
