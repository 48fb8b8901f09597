"""The layers of the package, its compiled modules and its C kernels: the design, which test_layers.py checks."""

from __future__ import annotations

# Bottom first. A unit (a module of privol, or a whole subpackage) imports only from layers below its own; units of one
# layer do not import each other.
LAYERS: tuple[set[str], ...] = (
    {"errors"},
    {"_files", "_roots", "_rounding", "_sparse", "_validate", "_values", "_vocabulary"},
    {"_threads"},
    {"_core"},
    {"config"},
    {"factorizations", "geometry", "losses", "noise", "topology"},
    {"guarantees"},
    {"calibration"},
    {"randomizers"},
    {"ledger", "rounds"},  # rounds: between a learner's process and devices, which have no learners
    {"readers"},  # from bytes and objects to columns
    {"encoding"},  # from columns to numbers
    {"_live_users"},  # the users of rows that are passed block by block
    {"prefix", "streams", "wrapping"},  # a prefix sum, or a user's own algorithm, is a run: it opens an account
    {"data", "distributed"},
    {"learners"},
    {"explaining"},  # what a released model says about its columns
    {"auto"},  # an encoding and the learner behind it, as one estimator
    {"state"},  # exports and checkpoints of learners
    {"live"},  # rows that are given one by one to a kept run
    {"river"},  # learners in River
    {"exporting", "flower"},  # released models for other tools; devices and nodes that Flower connects
    {"evaluate", "planning", "audit", "tuning"},
    {"arena"},  # learners side by side, in the order of everything below
    {"reproduce"},  # tables and figures of the source papers, measured again
    # verifying: the claims of a run, checked by its record; serving: released models over HTTP
    {"tables", "plots", "verifying", "serving"},
    {"cli"},
    {"__main__"},
)
RANK = {unit: rank for rank, units in enumerate(LAYERS) for unit in units}

# Narrower than the layers: all that these may import from privol.
ONLY = {
    "errors": set(),
    "verifying": set(),  # it checks the claims of the others, and shares no mistake with them
    "_validate": {"errors"},
    "_sparse": {"errors"},
    "_values": {"errors"},
    "_files": {"errors"},
    "_roots": set(),
    "_rounding": set(),  # the unit, the factor outwards
    "_vocabulary": set(),  # words alone
    "_threads": {"errors", "_validate"},
    "_core": {"errors"},  # arithmetic, which never knows what epsilon is
    # a kernel reads plain lines; messages that are set aside are written for good
    "readers": {"errors", "_core", "_files", "_sparse", "_validate", "_values"},
    # a schema may be learnt under a guarantee: noise, and a ledger that pays
    "encoding": {
        "readers",
        "ledger",
        "noise",
        "guarantees",
        "_core",
        "errors",
        "_rounding",
        "_threads",
        "_validate",
        "_values",
    },
    "streams": {"encoding", "readers", "_core", "errors", "_validate"},  # the table of users is compiled
    "data": {"streams", "errors", "_validate"},
    "config": {"_core"},
    "factorizations": {"errors", "_roots", "_rounding", "_validate", "_vocabulary"},  # pure mathematics
    "topology": {"errors", "_sparse", "_validate"},  # likewise, and public
}

# Compiled modules, bottom first, each with those that it may cimport or import.
CORE_ORDER = (
    "_text", "_plain", "_rows", "_one_row", "_losses", "_geometry", "_schedule", "_noise", "_draws", "_guarded",
    "_sampler", "_vectors", "_report", "_bitgen", "_discrete", "coin", "_prefix_plan", "_prefix", "_learner_run",
    "_iterate", "_gradient", "_local", "_network", "_bandit", "_leader", "_least_squares", "_objective",
    "_row_sums", "_newton", "_seen",
)  # fmt: skip

# Families of C kernels (src/privol/_core/c), each with those whose headers it may include.
KERNELS: dict[str, set[str]] = {
    "base": set(),
    "cells": {"base"},
    "rows": {"base"},
    "users": {"base"},
    "losses": {"base"},
    "noise": {"base"},
    "betting": {"base", "noise"},
    "reports": {"base", "noise"},
    "prefix": {"base", "noise", "rows"},
    "offline": {"base", "losses", "rows"},
    "runs": {"base", "betting", "losses", "noise", "prefix", "reports", "rows"},
}

# Libraries, and which units may import them; None: all.
LIBRARIES: dict[str, set[str] | None] = {
    "numpy": None,
    "scipy": None,
    "sklearn": None,
    "mpmath": None,
    "threadpoolctl": None,
    "xxhash": {"state"},
    "cryptography": {"_core", "noise", "config", "serving"},
    "pyarrow": {"readers", "encoding", "streams", "serving", "cli"},
    "adbc_driver_sqlite": {"readers"},
    "adbc_driver_postgresql": {"readers"},
    "duckdb": {"readers"},
    "redis": {"readers"},
    "confluent_kafka": {"readers"},
    "paho": {"readers"},
    "dp_accounting": {"guarantees", "ledger"},
    "mlflow": {"exporting"},
    "networkx": {"topology"},
    "onnx": {"exporting"},
    "mpi4py": {"distributed"},
    "distributed": {"distributed"},  # Dask's
    "river": {"arena", "river"},
    "flwr": {"flower"},
    "diffprivlib": {"arena"},
    "click": {"cli"},
    "rich": {"cli", "tables"},
    "matplotlib": {"plots", "explaining"},
    "jinja2": {"cli"},
    "h11": {"serving"},
    "orjson": {"serving"},
    "prometheus_client": {"serving"},
    "starlette": {"serving"},
    "uvicorn": {"serving"},
}
# Not installed with every privol: imported inside functions, so that the module can be imported without them.
OPTIONAL = {"pyarrow", "dp_accounting", "networkx", "mpi4py", "distributed", "river", "diffprivlib", "flwr"}
OPTIONAL |= {
    "adbc_driver_sqlite",
    "adbc_driver_postgresql",
    "duckdb",
    "mlflow",
    "onnx",
    "redis",
    "confluent_kafka",
    "paho",
}

# Imports inside functions hide a dependency, so each has a reason here. The command line may use them to start fast.
LAZY = {
    ("config", "cryptography"): "only the report of versions needs it",
    ("config", "privol"): "the version is read when asked for",
    ("readers", "pyarrow"): "optional: the parser without it is slower",
    ("readers", "adbc_driver_sqlite"): "optional: only tables of SQLite need it",
    ("readers", "adbc_driver_postgresql"): "optional: only tables of PostgreSQL need it",
    ("readers", "duckdb"): "optional: only tables of DuckDB need it",
    ("readers", "redis"): "optional: only streams of Redis need it",
    ("readers", "confluent_kafka"): "optional: only topics of Kafka need it",
    ("readers", "paho"): "optional: only topics of MQTT need it",
    ("encoding", "pyarrow"): "optional: it works on batches of pyarrow, which it finds where there are any",
    ("streams", "pyarrow"): "optional: likewise",
    ("serving", "pyarrow"): "optional: likewise",
    ("state", "sklearn"): "a check that only an export needs",
    ("guarantees", "scipy"): "its statistics take longer to import than all else, and few guarantees need them",
    ("calibration", "scipy"): "its optimisers take as long to import as all else, and few calibrations need them",
    ("factorizations", "scipy"): "likewise, and few designs need them",
    ("auto", "privol"): "the command line needs other modules of it, and neither estimator",
    ("state", "privol"): "only a saved estimator of tables needs estimators, and learning saves none",
    ("learners", "sklearn"): "its metrics take longer to import than all else, and learning needs none",
    ("readers", "sklearn"): "its hasher and its parser bring most of SciPy, which no other rows need",
    ("guarantees", "dp_accounting"): "optional: only runs of several kinds need it, for a tighter figure",
    ("explaining", "matplotlib"): "only a picture needs it, and an explanation is drawn by a method of its own",
    ("distributed", "mpi4py"): "optional: names of the module are annotations, and streams of nodes need no MPI",
    ("distributed", "distributed"): "optional: Dask's library of that name, which only its crew needs",
    ("river", "river"): "optional: classes of River are made when they are asked for",
    ("flower", "flwr"): "optional: apps of Flower are made when they are asked for",
    ("arena", "river"): "optional: generators of streams, and a reference",
    ("arena", "diffprivlib"): "optional: the script that another interpreter runs",
    ("exporting", "mlflow"): "optional: only logging to it needs it",
    ("exporting", "onnx"): "optional: only graphs of ONNX need it",
    ("topology", "networkx"): "optional: graphs go to it, they are not made by it",
}

# Modules that are imported by a computed name.
COMPUTED = {
    "exporting": "its own modules: the steps of an exported pipeline need no learner",
    "serving": "its own modules: a registry needs no server",
    "learners": "its own modules, by the table of learners: it has to be there at once",
    "cli": "libraries that others import without need, when somebody uses them",
}
