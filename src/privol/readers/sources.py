"""Opens live sources by their URLs."""

from __future__ import annotations

from .csv_text import CsvOptions
from .feeds import Feed
from .kafka_topics import KafkaFeed
from .message_columns import MessageColumns
from .mqtt_topics import MqttFeed
from .redis_streams import RedisFeed
from .source_urls import parsed

__all__ = ["FEEDS", "open_live"]

#: The feed of each scheme.
FEEDS: dict[str, type[Feed]] = {
    "redis": RedisFeed,
    "rediss": RedisFeed,
    "kafka": KafkaFeed,
    "mqtt": MqttFeed,
    "mqtts": MqttFeed,
}


def open_live(url: str, options: CsvOptions, format: str | None, *, named_target: bool) -> MessageColumns:
    """Return the columns of a live source, by a URL such as ``redis://localhost/0?stream=visits&group=model``.

    Parameters as for :class:`~privol.readers.message_columns.MessageColumns`.
    """
    found = parsed(url)
    return MessageColumns(FEEDS[found.scheme](found), options, format, named_target=named_target)
