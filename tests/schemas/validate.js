// validate.js - validates what schema_sampler wrote with ajv: node validate.js FILE.jsonl
// Every finished text must be JSON that satisfies its schema; prints the counts.
const fs = require("fs");
const Ajv2020 = require("ajv/dist/2020");
const Ajv7 = require("ajv");
const formats = require("ajv-formats");
const rows = fs.readFileSync(process.argv[2], "utf8").trim().split("\n").map((l) => JSON.parse(l));
const files = {};
let finished = 0, open = 0, refused = 0, bad = 0, tokens = 0, mask = 0, worst = 0, totals = null;
for (const row of rows) {
  if (row.step_ms !== undefined) { totals = row; continue; }
  if (row.refused !== undefined) { refused++; console.log(`refused: ${row.file} ${row.index}: ${row.refused}`); continue; }
  tokens += row.tokens;
  mask += row.mask_ms;
  worst = Math.max(worst, row.worst_ms);
  if (!row.finished) { open++; continue; }
  finished++;
  files[row.file] ??= JSON.parse(fs.readFileSync(row.file, "utf8"));
  const schema = files[row.file][row.index];
  const Ajv = /draft-07/.test(schema.$schema ?? "") ? Ajv7 : Ajv2020;
  const ajv = new Ajv({ strict: false, allErrors: false });
  formats(ajv);
  ajv.addFormat("int32", { type: "number", validate: (x) => Number.isInteger(x) && Math.abs(x) < 2 ** 31 + 1 });
  let why = "";
  try {
    const check = ajv.compile(schema);
    if (!check(JSON.parse(row.text))) why = ajv.errorsText(check.errors);
  } catch (e) { why = String(e); }
  if (why !== "") { bad++; console.log(`BAD: ${row.file} ${row.index}: ${row.text}: ${why}`); }
}
console.log(`${finished + open + refused} schemas: ${finished} finished, ${open} cut by length, ${refused} refused; ${bad} finished ones do not validate`);
if (totals) {
  const step = totals.step_ms / totals.rows;
  console.log(`masks: ${(mask / tokens).toFixed(3)} ms a token on average, ${worst.toFixed(2)} at worst; a row of a decode ${step.toFixed(2)} ms of processor time (${(100 * mask / tokens / step).toFixed(2)} %)`);
}
process.exit(bad === 0 && finished > 0 ? 0 : 1);
