"""Encoding: columns to numbers, each row by itself, as a schema says that is public or learnt privately."""

from .phases import EncodingPlan, plan_encoding
from .private_encoder import PrivateEncoder

__all__ = ["EncodingPlan", "PrivateEncoder", "plan_encoding"]
