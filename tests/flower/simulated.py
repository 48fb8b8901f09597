"""The example of a network in Flower's simulation: ``python simulated.py EXAMPLE FOLDER``.

Simulated nodes have numbers instead of a configuration of their own, which this gives them.
"""

import sys

from flwr.simulation import run_simulation

from privol.flower import network_app, node_app

EXAMPLE, FOLDER = sys.argv[1:]
SEED = 5


def configured(call):
    """A function of the client, with the configuration that its SuperNode would have been started with."""

    def called(context):
        k = context.node_config["partition-id"]
        mine = {"node": k, "directory": f"{FOLDER}/node-{k}", "rows": f"{FOLDER}/rows-{k}.csv", "seed": SEED}
        context.node_config.update(mine)
        return call(context)

    return called


def main():
    sys.path.insert(0, EXAMPLE)
    from network import client, server

    def begin(context):
        context.run_config.update({"seed": SEED, "model": f"{FOLDER}/model.npz"})
        return server.begin(context)

    run_simulation(
        network_app(begin, server.end, pause=0.02),
        node_app(configured(client.node), configured(client.rows)),
        num_supernodes=3,
        backend_config={"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": 1}},
    )


if __name__ == "__main__":
    main()
