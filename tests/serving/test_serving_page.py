"""The commands of docs/serving.md run as they stand there; its Python runs with that of all pages."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess

from cli_tools import OK, privol_cli
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from places import ROOT
from serving_tools import ask, saved, serving, told

from privol.cli.app import app
from privol.cli.run import run as run_command

PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
LINES = [
    line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) for line in block.splitlines()
]


def keys():
    """What the page makes with openssl."""
    key = Ed25519PrivateKey.generate()
    plain, pem = serialization.NoEncryption(), serialization.Encoding.PEM
    with open("key.pem", "wb") as file:
        file.write(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    with open("team.pem", "wb") as file:
        file.write(key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))


def test_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    saved(tmp_path / "RUN")
    if shutil.which("openssl") is None:
        keys()
    served, known = [], set()
    for line in LINES:
        words = shlex.split(line)
        known.add(" ".join(words[:2]))
        if words[0] == "openssl" and shutil.which("openssl"):
            subprocess.run(line, shell=True, check=True, capture_output=True)
        elif words[:2] == ["privol", "serve"]:
            given = app.commands["serve"].make_context("serve", words[2:]).params
            if given["source"] is not None:  # its options are those of privol run
                run_command.make_context("run", [given["source"], *given["words"]])
            served.append(given)
        elif words[0] == "privol":
            result = privol_cli(*words[1:])
            assert result.exit_code == OK, result.output
    assert known >= {"privol serve", "privol publish", "privol registry", "openssl rand", "docker build"}
    with serving("MODELS", public_key=served[-1]["public_key"]) as service:
        assert told(service, "/v1/models")["models"]["readmission"]["version"] == 1
    token = served[1]["token_file"]
    if shutil.which("openssl"):
        from privol.serving import Token

        with serving("RUN", token=Token.found(token)) as service:
            assert ask(service, "/metrics")[0] == 401


def test_every_figure_has_its_reason(tmp_path):
    """The table of metrics names each of them, so that none is shown whose publicity nobody has derived."""
    with serving(saved(tmp_path / "run")) as service:
        ask(service, body=b"[")
        text = ask(service, "/metrics")[2].decode()
    table = PAGE.partition("| figure | why")[2].partition("\n\n")[0]
    for name in re.findall(r"^# TYPE (\w+) \w+$", text, re.MULTILINE):
        if not name.endswith("_created"):
            assert f"`{name}`" in table, name


def test_every_status_is_listed():
    sources = "".join(path.read_text() for path in (ROOT / "src" / "privol" / "serving").glob("*.py"))
    statuses = set(re.findall(r"Refused\(\s*(\d{3})", sources))
    table = PAGE.partition("| status | reason |")[2].partition("\n\n")[0]
    assert statuses
    assert not {status for status in statuses if not re.search(rf"\| .*\b{status}\b.* \|", table)}
