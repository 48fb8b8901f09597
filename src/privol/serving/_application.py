"""The ASGI application: predictions, descriptions, health and metrics."""

from __future__ import annotations

import asyncio
import logging
import math
import time
import traceback
from collections.abc import Callable
from typing import Any

import orjson
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import PrivolError
from ._guards import Limits, Rate, Room, Token, host_of, is_loopback
from ._live_run import Learning
from ._public_metrics import PublicMetrics
from ._requests import ARROW, JSON, Refused, answer_in_arrow, answer_in_json, answer_to, wants_arrow
from ._shelf import Served, Shelf, Slot

__all__ = ["application"]

log = logging.getLogger("privol.serving")

_INLINE = 65536  # bytes of a body that is answered at once, in about a millisecond; longer ones hold up no others
_LONG_AT_ONCE = 2  # longer ones: while they are read, each may take thirty times its own bytes
_BODIES = 8  # times the longest body that all bodies take at once, beside what is answered at once
_OPEN = ("/healthz", "/readyz")


def application(shelf: Shelf, *, limits: Limits, token: Token | None, learning: Learning) -> ASGIApp:
    """Return the ASGI application of a shelf of models."""
    metrics = PublicMetrics(shelf, learning)
    return _Guarded(_Routes(shelf, limits, learning, metrics).router, metrics, token, Rate(limits.rate))


def _json(values: Any, status: int = 200, **headers: str) -> Response:
    return Response(orjson.dumps(values), status, headers, JSON)


def _refusal(refused: Refused) -> Response:
    return _json({"error": refused.message}, refused.status, **refused.headers)


class _Routes:
    """The answers to requests that were let in."""

    def __init__(self, shelf: Shelf, limits: Limits, learning: Learning, metrics: PublicMetrics) -> None:
        self._shelf, self._limits, self._learning, self._metrics = shelf, limits, learning, metrics
        self._room, self._long = Room(_BODIES * limits.body), asyncio.Semaphore(_LONG_AT_ONCE)
        self.router = Router(
            [
                Route("/healthz", self.health, methods=["GET"]),
                Route("/readyz", self.ready, methods=["GET"]),
                Route("/metrics", self.metrics, methods=["GET"]),
                Route("/v1/models", self.models, methods=["GET"]),
                Route("/v1/models/{name}", self.model, methods=["GET"]),
                Route("/v1/models/{name}/predict", self.predict, methods=["POST"]),
                Route("/v1/predict", self.predict, methods=["POST"]),
            ],
            redirect_slashes=False,
        )

    # ---- health: open to everybody, and without any detail ---------------------------------------------------

    def _health(self) -> dict[str, Any]:
        slots = self._shelf.slots
        learning = self._learning.state
        problems = any(slot.problem for slot in slots.values()) or learning in ("failed", "waiting")
        return {
            "status": "degraded" if problems or not slots else "ok",
            "models": {name: slot.problem or "served" for name, slot in slots.items()},
            "learning": learning,
        }

    async def health(self, request: Request) -> Response:
        """The process answers: 200, whatever there is to say of its models."""
        return _json(self._health())

    async def ready(self, request: Request) -> Response:
        """Every model that is to be served is: 200, else 503."""
        slots = self._shelf.slots.values()
        whole = bool(slots) and all(slot.served is not None for slot in slots)
        return _json(self._health(), 200 if whole else 503)

    async def metrics(self, request: Request) -> Response:
        return Response(self._metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})

    # ---- models ----------------------------------------------------------------------------------------------

    async def models(self, request: Request) -> Response:
        slots = self._shelf.slots
        return _json(
            {"models": {name: None if s.served is None else _which(name, s.served) for name, s in slots.items()}}
        )

    async def model(self, request: Request) -> Response:
        try:
            name, served = self._asked(request)
        except Refused as refused:
            return _refusal(refused)
        return _json(_description(name, served))

    def _asked(self, request: Request) -> tuple[str, Served]:
        slots = self._shelf.slots
        name = request.path_params.get("name")
        if name is None:
            if len(slots) != 1:
                raise Refused(404, "there are several models, or none: /v1/models lists them, "
                              "/v1/models/NAME/predict asks one")  # fmt: skip
            name = next(iter(slots))
        slot: Slot | None = slots.get(name)
        if slot is None:
            raise Refused(404, "there is no such model: /v1/models lists them")
        if slot.served is None:
            raise Refused(503, "the model has not been released yet", retry_after="1")
        return name, slot.served

    async def predict(self, request: Request) -> Response:
        with self._room.taker() as take:
            return await self._predicted(request, take)

    async def _predicted(self, request: Request, take: Callable[[int], bool]) -> Response:
        try:
            name, served = self._asked(request)
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind not in (JSON, ARROW):
                raise Refused(415, f"the body must be {JSON} or {ARROW}, as Content-Type says")
            as_arrow = wants_arrow(request.headers.get("accept"), kind)
            body = await self._body(request, take)
            # one model answers the whole request, even if it is replaced meanwhile
            if len(body) <= _INLINE:
                found = self._answered(name, served, kind, body, as_arrow)
            else:
                async with self._long:
                    found = await run_in_threadpool(self._answered, name, served, kind, body, as_arrow)
        except Refused as refused:
            return _refusal(refused)
        if isinstance(found, Refused):
            return _refusal(found)
        rows, content = found
        self._metrics.predicted(rows)
        return Response(content, 200, {"cache-control": "no-store"}, ARROW if as_arrow else JSON)

    def _answered(
        self, name: str, served: Served, kind: str, body: bytes, as_arrow: bool
    ) -> tuple[int, bytes] | Refused:
        """Return the number of rows and the answer; a refusal is not raised, as its frames would keep the rows."""
        make = answer_in_arrow if as_arrow else answer_in_json
        try:
            answer = answer_to(kind, body, served.predictor, self._limits.rows)
            return len(answer.predictions), make(answer, _which(name, served))
        except Refused as refused:
            status, words, headers = refused.status, refused.message, refused.headers
        except PrivolError as error:  # about the client's rows, which it knows
            status, words, headers = 422, str(error), {}
        return Refused(status, words, **headers)

    async def _body(self, request: Request, take: Callable[[int], bool]) -> bytes:
        most, found = self._limits.body, bytearray()
        too_long = Refused(413, f"the body has more than {most:,} bytes", connection="close")
        stated = request.headers.get("content-length", "")
        if stated.isdecimal() and int(stated[:20]) > most:
            raise too_long
        async for piece in request.stream():
            if len(found) + len(piece) > most:
                raise too_long
            found += piece
            if len(found) > _INLINE and not take(len(piece)):
                raise Refused(503, "too many long bodies at once", retry_after="1", connection="close")
        return bytes(found)


def _which(name: str, served: Served) -> dict[str, Any]:
    """What says which model it is."""
    found: dict[str, Any] = {"name": name, "rows": served.rows, "releases": served.releases, "private": served.private}
    if served.number is not None:
        found |= {"version": served.number, "manifest": served.manifest}
    return found


def _description(name: str, served: Served) -> dict[str, Any]:
    """What a client may want to know of a model: its columns and its guarantee. All of it is public."""
    predictor, guarantee = served.predictor, served.guarantee
    spent = None if served.spent is None else {"mu": _plain(served.spent[0]), "epsilon": _plain(served.spent[1])}
    return {
        **_which(name, served),
        "learner": type(predictor.learner).__name__,
        "columns": predictor.columns,
        "cells": predictor.width,
        "classes": predictor.classes,
        "guarantee": {
            "summary": guarantee.summary(),
            "sentence": guarantee.sentence(),
            "record": guarantee.to_record(),
        },
        "spent": spent,
    }


def _plain(x: float) -> float | str:
    return "inf" if math.isinf(x) else x


class _Guarded:
    """Lets a request in, or not; counts it; and lets no exception out, whose words could quote a client's cells."""

    def __init__(self, app: ASGIApp, metrics: PublicMetrics, token: Token | None, rate: Rate) -> None:
        self._app, self._metrics, self._token, self._rate = app, metrics, token, rate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        began, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            refused = self._refused(scope)
            await (self._app if refused is None else _refusal(refused))(scope, receive, sending)
        except ClientDisconnect:
            status = status or 499  # nobody is left to answer
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            log.error("%s at %s:%s while a request was answered", type(error).__name__, at.filename, at.lineno)
            if not status:
                await _json({"error": "an error of the service, which its log names"}, 500)(scope, receive, sending)
        self._metrics.answered(_route(scope), status or 500, time.perf_counter() - began)

    def _refused(self, scope: Scope) -> Refused | None:
        if scope["path"] in _OPEN:
            return None
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if self._token is not None:
            if not self._token.admits(headers.get(b"authorization")):
                return Refused(401, "the header Authorization must be: Bearer TOKEN", www_authenticate="Bearer")
        elif not is_loopback(host_of(headers.get(b"host"))):
            # a page in a browser on this machine that has its own name resolved to this address
            return Refused(421, "without a token only requests to localhost are answered")
        wait = self._rate.take()
        if wait:
            return Refused(429, "too many requests a second", retry_after=str(math.ceil(wait)))
        return None


def _route(scope: Scope) -> str:
    """The route of a request for metrics: one of few, whatever paths strangers ask for."""
    path = scope["path"]
    if path in (*_OPEN, "/metrics", "/v1/models", "/v1/predict"):
        return str(path)
    if "endpoint" in scope:
        return "/v1/models/NAME/predict" if path.endswith("/predict") else "/v1/models/NAME"
    return "other"
