"""Write the frozen contract anew: `python tests/update_golden.py`. A schema that breaks its readers is refused."""

from __future__ import annotations

import json
import sys

from golden import ANSWER, DIGESTS, SHAPE, breaks, digests, frozen_answer, shape

from specdec_cli.report.contract.schema import ANSWERS


def refused() -> list[str]:
    """Why schemas cannot be written anew under the number that they have."""
    found = []
    for answer in ANSWERS:
        file = SHAPE / f"{answer.name}.json"
        old = json.loads(file.read_text("utf-8")) if file.exists() else None
        if old is not None and old["title"] == answer.schema:
            found += [f"{answer.schema}: {what}" for what in breaks(old, json.loads(shape(answer)))]
    return found


if __name__ == "__main__":
    if wrong := refused():
        sys.exit("\n".join([*wrong, "readers would stumble over that: raise the number of the schema"]))
    for folder in (ANSWER, SHAPE):
        folder.mkdir(exist_ok=True)
    for answer in ANSWERS:
        (SHAPE / f"{answer.name}.json").write_text(shape(answer), "utf-8")
        (ANSWER / f"{answer.name}.json").write_text(frozen_answer(answer.name), "utf-8")
    DIGESTS.write_text(json.dumps(digests(), indent=1) + "\n", "utf-8")
