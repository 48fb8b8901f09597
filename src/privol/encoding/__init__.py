"""Encoding: columns become numbers, each row by itself, by a schema that is public or learnt privately."""

from .outlook import Outlook, outlook_of
from .phases import EncodingPlan, plan_encoding
from .private_encoder import PrivateEncoder, encoding_record

__all__ = ["EncodingPlan", "Outlook", "PrivateEncoder", "encoding_record", "outlook_of", "plan_encoding"]
