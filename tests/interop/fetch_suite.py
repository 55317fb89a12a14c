"""Fetch the official JSON-Schema-Test-Suite into ``.interop/json-schema-suite``.

    python tests/interop/fetch_suite.py

The source distribution of ``jsonschema`` carries a copy of it. Only that part is unpacked, and
nothing of the distribution is run. Test data, not ours: the directory is not under version control.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

VERSION = "4.26.0"
OPTIONS = ("download", "--quiet", "--no-deps", "--no-binary", ":all:")
SUITE = Path(__file__).resolve().parents[2] / ".interop" / "json-schema-suite"


def main() -> None:
    marker = SUITE / "source.json"
    if marker.is_file() and json.loads(marker.read_text())["version"] == VERSION:
        print(f"already there: {SUITE}")
        return
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(
            [sys.executable, "-m", "pip", *OPTIONS, "--dest", directory, f"jsonschema=={VERSION}"],
            check=True,
        )
        archive = next(Path(directory).glob("jsonschema-*.tar.gz"))
        shutil.rmtree(SUITE, ignore_errors=True)
        count = unpack(archive)
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    marker.write_text(json.dumps({"version": VERSION, "sha256": digest, "files": count}))
    print(f"{count} files in {SUITE}")


def unpack(archive: Path) -> int:
    count = 0
    with tarfile.open(archive) as tar:
        for member in tar:
            parts = PurePosixPath(member.name).parts
            if not member.isfile() or parts[1:3] != ("json", "tests") or ".." in parts:
                continue
            target = SUITE.joinpath(*parts[3:])
            target.parent.mkdir(parents=True, exist_ok=True)
            source = tar.extractfile(member)
            assert source is not None
            target.write_bytes(source.read())
            count += 1
    return count


if __name__ == "__main__":
    main()
