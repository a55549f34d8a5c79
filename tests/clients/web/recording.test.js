import assert from "node:assert/strict";
import { test } from "node:test";

import { Failure } from "../../../clients/web/failures.js";
import { Recording } from "../../../clients/web/recording.js";

test("of a file that is cut short it is told, unless somebody stopped before its end", () => {
  const recording = new Recording({ name: "cut.wav" });
  recording.cut = new Failure("cut-short");
  assert.equal(recording.lost, recording.cut);
  recording.stop();
  assert.equal(recording.lost, null);
});
