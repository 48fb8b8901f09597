"""What goes with the files of a release: their digests, what they were made of and with, what they bring along."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from targets import zig
from wheels import ROOT, environment, run


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sums(files: list[Path]) -> str:
    """Return the lines that ``sha256sum --check`` reads."""
    return "".join(f"{digest(path)}  {path.name}\n" for path in sorted(files))


def provenance(files: list[Path], revision: str, epoch: int, builders: dict[str, Path]) -> dict[str, object]:
    """Return how the files were made, as an in-toto statement with the predicate of SLSA.

    It is a note and not a proof: nobody has signed it. The release's workflow adds an attestation that the package
    index checks.
    """
    own = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=False).stdout.split("\n")[0]
    tools = [{"uri": f"compiler:{own}"}, {"uri": f"compiler:zig {run([*zig(), 'version']).strip()}"}]
    for name, python in sorted(builders.items()):
        listed = run([sys.executable, "-m", "pip", "--python", str(python), "list", "--format", "freeze"]).split()
        tools.append({"uri": f"python:{name}", "annotations": {"packages": sorted(listed)}})
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": digest(path)}} for path in sorted(files)],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "python tools/release build",
                "externalParameters": {"commit": revision, "SOURCE_DATE_EPOCH": epoch},
                "resolvedDependencies": [{"uri": "git", "digest": {"gitCommit": revision}}, *tools],
            },
            "runDetails": {"builder": {"id": f"local:{platform.system()}-{platform.machine()}"}},
        },
    }


def bill_of_materials(wheel: Path, epoch: int) -> str:
    """Return a CycloneDX bill of materials: the wheel, and all that pip installs with it into an empty environment."""
    with tempfile.TemporaryDirectory() as name:
        place, out = Path(name, "env"), Path(name, "sbom.json")
        run([sys.executable, "-m", "venv", "--without-pip", str(place)])
        python = str(place / "bin" / "python")
        run(
            [
                sys.executable,
                "-m",
                "pip",
                "--python",
                python,
                "install",
                "--quiet",
                "--only-binary",
                ":all:",
                str(wheel),
            ]
        )
        command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--validate"]
        command += ["--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "library", "--output-format", "JSON"]
        run([*command, "--spec-version", "1.6", "--output-file", str(out), python], env=environment(epoch))
        bill = json.loads(out.read_text())
    # the wheel's place on the build machine is nobody's business, its digest is
    for component in [bill["metadata"]["component"], *bill["components"]]:
        component.pop("externalReferences", None)
        if component["name"] == "privol":
            component["hashes"] = [{"alg": "SHA-256", "content": digest(wheel)}]
    return json.dumps(bill, indent=2, sort_keys=True) + "\n"
