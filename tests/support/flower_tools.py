"""A federation of Flower in one process: a grid that hands messages to client apps, as the bytes that Flower sends."""

from __future__ import annotations

import os

os.environ.update(FLWR_TELEMETRY_ENABLED="0", FLWR_DISABLE_UPDATE_CHECK="1")  # before Flower reads them

import pytest

if os.environ.get("CI") != "true":  # there the tests need it
    pytest.importorskip("flwr", reason="needs Flower: pip install 'privol[flower]'")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

__all__ = [
    "Array",
    "ArrayRecord",
    "ConfigRecord",
    "Context",
    "Error",
    "LoopGrid",
    "Message",
    "MetricRecord",
    "RecordDict",
    "ask",
    "unwired",
    "wire",
]

# what Flower sets where it starts an app
TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 7, 1


def wire(message):
    """What Flower sends of a message: the frame, and the objects that hold its content."""
    message.metadata.__dict__["_message_id"] = message.object_id
    frame = message_to_proto(remove_content_from_message(message)).SerializeToString()
    return frame, {name: each.deflate() for name, each in get_all_nested_objects(message).items()}


def unwired(message, objects):
    found = inflate_object_from_contents(message.object_id, dict(objects))
    found.metadata.__dict__["_message_id"] = message.object_id
    return found


class LoopGrid:
    """Nodes with one client app, each with its own context; ``fate(node, message, reply)`` may change a reply.

    ``sent`` has every reply that left a client, as bytes.
    """

    def __init__(self, app, configs, fate=lambda node, message, reply: reply):
        self.app, self.fate = app, fate
        self.contexts = {k + 1: Context(7, k + 1, dict(config), RecordDict(), {}) for k, config in enumerate(configs)}
        self.waiting, self.sent, self.asked = {}, [], []

    def get_node_ids(self):
        return list(self.contexts)

    def call(self, node, message):
        """One call of a client app, in a process of its own as far as Flower lets an app notice."""
        _, objects = wire(message)
        reply = self.app(unwired(message, objects), self.contexts[node])
        self.sent.append((node, reply, *wire(reply)))
        return reply

    def push_messages(self, messages):
        ids = []
        for message in messages:
            node = message.metadata.dst_node_id
            message.metadata.__dict__["_message_id"] = message.object_id
            self.asked.append((node, message))
            reply = self.fate(node, message, self.call(node, message))
            if reply is not None:
                self.waiting[message.object_id] = reply
            ids.append(message.object_id)
        return ids

    def pull_messages(self, message_ids):
        return [self.waiting.pop(name) for name in message_ids if name in self.waiting]


def ask(content, node=1, what="query.report"):
    """A message as a server would make it, with any content."""
    return Message(content, node, what)
