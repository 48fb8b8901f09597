"""The examples in Flower's simulation: ``python simulated.py NETWORK DEVICES FOLDER``.

Simulated nodes have numbers instead of a configuration of their own, which this gives them.
"""

import sys

from flwr.simulation import run_simulation

from privol.flower import device_app, learner_app, network_app, node_app

NETWORK, DEVICES, FOLDER = sys.argv[1:]
SEED = 5
BACKEND = {"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": 1}}


def configured(call, words_of):
    """A function of the client, with the configuration that its SuperNode would have been started with."""

    def called(context, *more):
        context.node_config.update(words_of(context.node_config["partition-id"]))
        return call(context, *more)

    return called


def of_node(k):
    return {"node": k, "directory": f"{FOLDER}/node-{k}", "rows": f"{FOLDER}/rows-{k}.csv", "seed": SEED}


def of_device(user):
    return {"row": f"{FOLDER}/row-{user}.json", "device": f"{FOLDER}/device-{user}", "seed": 30 + user}


def begun(begin, **config):
    """A function of the server, with the configuration of its run."""

    def called(context):
        context.run_config.update(config)
        return begin(context)

    return called


def main():
    sys.path[:0] = [NETWORK, DEVICES]
    from devices import client as device
    from devices import server as learner
    from network import client as node
    from network import server as relay

    run_simulation(
        network_app(begun(relay.begin, seed=SEED, model=f"{FOLDER}/model.npz"), relay.end, pause=0.02),
        node_app(configured(node.node, of_node), configured(node.rows, of_node)),
        num_supernodes=3,
        backend_config=BACKEND,
    )
    run_simulation(
        learner_app(begun(learner.begin, users=2, model=f"{FOLDER}/of-devices"), learner.end, pause=0.02),
        device_app(configured(device.device, of_device), configured(device.row, of_device)),
        num_supernodes=2,
        backend_config=BACKEND,
    )


if __name__ == "__main__":
    main()
