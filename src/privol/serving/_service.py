"""A server of HTTP in a thread of its own: the main thread stays free to learn, and to be interrupted."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvicorn

from .._validate import integer, number
from ..errors import InvalidParameter, StateError
from ..learners import OnlineLearner
from ._application import application
from ._connections import patient
from ._guards import TOKEN_VARIABLE, Limits, Token, is_loopback
from ._live_run import Learning, Source
from ._shelf import InRegistry, InRun, Place, Shelf, Watch
from ._signatures import PublicKey
from ._versions import Registry, is_registry

__all__ = ["Service"]

_TICK = 0.01


class Service:
    """A service of predictions over HTTP; as a context it starts and stops.

    It runs in threads of this process: one loop of events, and one thread that looks for newer models.

    Parameters
    ----------
    source : path
        The directory of a run, or a :class:`Registry`.
    host : str, default="127.0.0.1"
        Address to listen at. Any other than this machine's own needs a token.
    port : int, default=8080
        0: any free one.
    token : str or Token, optional
        What clients must show as ``Authorization: Bearer TOKEN``, for all but health.
    certificate, key : path, optional
        PEM files for TLS, both or neither.
    name : str, optional
        Of a registry: serve this name alone. Of a run: the name in paths; default: ``model``.
    number : int, optional
        Serve this version of that name, whatever is current.
    public_key : path, optional
        Of a registry: serve only versions that the owner of this Ed25519 key has signed.
    limits : Limits, optional
    seconds : float, default=1.0
        Between two looks for newer models, above 0.
    learns : bool, default=False
        Whether a run of this process learns into the directory ``source``, which :meth:`offer` serves.
    show_lag : bool, default=False
        Whether metrics show how many messages wait at the broker of that run, which is **not private**.

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or an address is open to others without a token.
    StateError
        If there is no run and no registry.

    Notes
    -----
    Only released models are read. Bodies of requests are written nowhere, and no log names a cell.
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        token: str | Token | None = None,
        certificate: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        name: str | None = None,
        number: int | None = None,
        public_key: PublicKey | None = None,
        limits: Limits | None = None,
        seconds: float = 1.0,
        learns: bool = False,
        show_lag: bool = False,
    ) -> None:
        self.host, self.port = host, integer(port=port, at_least=0, at_most=65535)
        self.limits = Limits() if limits is None else limits
        self._token = Token(token) if isinstance(token, str) else token
        self._seconds = _above(seconds)
        if self._token is None and not is_loopback(host):
            raise InvalidParameter(
                f"host {host!r} can be reached from other machines, and without a token anybody there could ask: give "
                f"a token (--token-file, or the variable {TOKEN_VARIABLE}), or listen at 127.0.0.1"
            )
        if (certificate is None) != (key is None):
            raise InvalidParameter("certificate and key must be given together: TLS needs both")
        self._tls = None if certificate is None or key is None else (os.fspath(certificate), os.fspath(key))
        self._folder, self._learns = Path(source), learns
        self.shelf, self.learning = Shelf(), Learning(show_lag=show_lag)
        self._registry, self._places = self._find(name, number, public_key, learns)
        self._name = next(iter(self._places), "")
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._watch: Watch | None = None

    def _find(
        self, name: str | None, number: int | None, public_key: PublicKey | None, learns: bool
    ) -> tuple[Registry | None, dict[str, Place]]:
        folder = self._folder
        if is_registry(folder) and not learns:
            registry = Registry(folder, public_key=public_key, create=False)
            if name is None:
                if number is not None:
                    raise InvalidParameter("number is the version of one model: give its name")
                return registry, {}
            registry.numbers(name)  # it is there
            return None, {name: InRegistry(registry, name, number)}
        if number is not None or public_key is not None:
            raise InvalidParameter("number and public_key are for a registry, which has versions and signatures")
        if not learns and not folder.is_dir():
            raise StateError(f"{folder}: no run and no registry here")
        if not learns and not any((folder / known).exists() for known in ("model.json", "ledger.jsonl", "secret")):
            raise StateError(f"{folder}: is no registry, and no run has begun here")
        return None, {"model" if name is None else name: InRun(folder)}

    @property
    def url(self) -> str:
        """Where it listens, once it has started."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self._tls is None else 'https'}://{host}:{self.port}"

    # ---- its course ------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> Self:
        """Listen, and serve what is there.

        Raises
        ------
        OSError
            If the address is taken or is none of this machine.
        InvalidParameter
            If certificate and key are no pair.
        """
        if self._thread is not None:
            raise StateError("the service has been started already")
        app = application(self.shelf, limits=self.limits, token=self._token, learning=self.learning)
        config = uvicorn.Config(
            app,
            http=patient(self.limits.request_seconds, self.limits.connections),
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,  # paths and addresses are nobody's business; metrics count requests
            server_header=False,
            proxy_headers=False,
            limit_concurrency=self.limits.connections,
            timeout_keep_alive=self.limits.idle_seconds,
            timeout_graceful_shutdown=self.limits.stop_seconds,
            **self._certificate(),
        )
        listener = self._listener()
        try:
            config.load()
            self._watch = Watch(self.shelf, self._places, self._registry, self._seconds)
            if self._learns:  # the model that an earlier call has left, until this one has released another
                self._watch.look()
            else:
                self._watch.start()
            self._server = uvicorn.Server(config)
            self._thread = threading.Thread(
                target=self._server.run, args=([listener],), name="privol-http", daemon=True
            )
            self._thread.start()
            while not self._server.started:
                if not self._thread.is_alive():
                    raise OSError(errno.EIO, "the server did not start", self.url)
                time.sleep(_TICK)
        except BaseException:
            listener.close()
            self.stop()
            raise
        return self

    def _certificate(self) -> dict[str, Any]:
        if self._tls is None:
            return {}
        certificate, key = self._tls
        for path in self._tls:
            if not os.access(path, os.R_OK):
                raise InvalidParameter(f"{path}: cannot be read")
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_no_password)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise InvalidParameter(
                f"{certificate} and {key} are no certificate and key in PEM that fit: {error}"
            ) from None
        return {"ssl_certfile": certificate, "ssl_keyfile": key}

    def _listener(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        # with its protocol named, or asyncio would leave Nagle's algorithm on: 40 ms for each answer
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            if os.name == "posix":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((self.host, self.port))
            listener.listen(2048)
        except OSError as error:
            listener.close()
            raise OSError(error.errno, error.strerror, f"{self.host}:{self.port}") from error
        self.port = int(listener.getsockname()[1])
        return listener

    def stop(self) -> None:
        """Take no more requests, let those that are under way end, and stop; stopping again does nothing."""
        if self._watch is not None:
            self._watch.stop()
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            while self._thread.is_alive():
                self._thread.join(0.1)

    @property
    def running(self) -> bool:
        """Whether it answers."""
        return self._thread is not None and self._thread.is_alive()

    # ---- a run that learns here ------------------------------------------------------------------------------

    def follow(self, stream: Source) -> None:
        """Note which stream a run of this process reads: health says when it is away."""
        self.learning.follow(stream)

    def offer(self, learner: OnlineLearner, inputs: Mapping[str, Any] | None) -> None:
        """Serve what a kept run of this process has released by now; for callbacks of ``fit_stream``.

        A model that cannot be served ends nothing: health says so, and the log why.

        Raises
        ------
        OSError
            If the service does not run: nobody would see what is learnt.
        """
        if not self.running:
            raise OSError(errno.EPIPE, "the service does not run", self.url)
        self.learning.enter("running")
        self.learning.offer(self.shelf, self._name, learner, inputs)

    def settle(self, state: str) -> None:
        """Note how the run of this process has ended; its directory has its last model, which is served from now on.

        Parameters
        ----------
        state : {"ended", "stopped", "failed"}
        """
        self.learning.enter(state)
        if self._watch is not None:
            self._watch.start()


def _above(seconds: float) -> float:
    return number(seconds=seconds, above=0.0)


def _no_password() -> str:
    raise ValueError("the key is encrypted, allowed is one that is not")
