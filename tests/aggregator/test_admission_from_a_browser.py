"""The browser's modules against a real server: an invitation becomes a counted report."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from client_sdk.epochs import day_of
from tests.aggregator.respondents import Hall
from tests.javascript import WEB, node

RUN = """
import { readFileSync } from "node:fs";
import { admit, surveyKey } from "WEB/admission.js";
import { enrol, finished, send } from "WEB/sender.js";
import { prfStream } from "WEB/randomness.js";

const { endpoint, token, keyDigest, report } = JSON.parse(readFileSync("told.json", "utf8"));
const publicKey = await surveyKey({ endpoint, survey: "habits", keyDigest });
const invitation = { endpoint, survey: "habits", token, publicKey };
const secret = new Uint8Array(32).map((_, at) => at);
// Twice, as after a reload: the same admission, the same device.
const came = [];
for (let times = 0; times < 2; times++) {
  const admission = await admit(invitation, { source: prfStream(secret) });
  came.push({ admission, device: (await enrol(endpoint, { admission })) });
}
const [{ device }] = came;
const batch = { ...device, sequence: 1, reports: [report] };
const { verdict, reports } = await send(endpoint, { ...batch, ...(await finished(batch)) });
const refused = await admit(invitation).catch(({ reason }) => reason);
const same = came[0].admission === came[1].admission && device.device === came[1].device.device;
console.log(JSON.stringify({ verdict, reports, refused, same }));
"""


@pytest.mark.slow
def test_a_browser_that_comes_twice_with_one_invitation_is_counted_once(
    world: Any, serve: Callable[[Any], Any], tmp_path: Path
) -> None:
    hall = Hall(world, around=day_of(time.time()))
    server = serve(world)
    told = {
        "endpoint": server.url,
        "token": hall.tokens[0],
        "keyDigest": hall.key.public.digest,
        "report": hall.report(),
    }
    (tmp_path / "told.json").write_text(json.dumps(told))
    (tmp_path / "run.mjs").write_text(RUN.replace("WEB", WEB.as_posix()))
    assert json.loads(node("run.mjs", cwd=tmp_path)) == {
        "verdict": "accepted",
        "reports": ["accepted"],
        "refused": "invitation_used",
        "same": True,
    }
    figures = world.store.invitations.figures("habits")
    assert (figures.made, figures.used) == (3, 1)
    assert world.folder.fold_once() == 1
