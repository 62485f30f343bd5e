#!/usr/bin/env node
// compare.mjs - measures Lockstep and llama.cpp on the same files in alternating runs and prints the
// medians and their ratios. Both run in processes of their own, with the same tokens, threads and
// numbers of rows; the engine that begins changes with every round. See docs/benchmark.md.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const here = dirname(fileURLToPath(import.meta.url));
const root = resolve(here, "../..");
const GROUPS = ["speed", "batch", "depth", "first", "memory", "busy", "audio"];
const help = `usage: compare.mjs [OPTIONS]

  --peer FOLDER      where setup.sh puts the peer ($LOCKSTEP_PEER, or build/peer)
  --tool FILE        the lockstep tool (build/release/apps/lockstep/lockstep)
  --shape NAME       model shape of lockstep make-random (qwen3-1.7b)
  --formats LIST     formats of the speed tests (Q4_K_M,Q8_0,Q4_0); the first one is that of all
                     other tests
  --model FILE       this model instead, for all tests
  --only LIST        groups: ${GROUPS.join(", ")}
  --projectors LIST  formats of the audio tests' encoder (F16,Q8_0), the shape of Qwen2.5-Omni-3B
  --rounds N         alternating runs of each test (3); of the depth tests two at most
  --threads N        (one per processor)
  --depth N          of the depth tests (4096)
  --prepare          only make what the measurement needs: the peer and the models
  --json FILE        writes every sample
`;

const { values: options } = parseArgs({
  options: {
    peer: { type: "string", default: process.env.LOCKSTEP_PEER ?? join(root, "build/peer") },
    tool: { type: "string", default: join(root, "build/release/apps/lockstep/lockstep") },
    shape: { type: "string", default: "qwen3-1.7b" },
    formats: { type: "string", default: "Q4_K_M,Q8_0,Q4_0" },
    model: { type: "string" },
    projectors: { type: "string", default: "F16,Q8_0" },
    only: { type: "string", default: GROUPS.join(",") },
    rounds: { type: "string", default: "3" },
    threads: { type: "string", default: String(cpus().length) },
    depth: { type: "string", default: "4096" },
    prepare: { type: "boolean", default: false },
    json: { type: "string" },
    help: { type: "boolean", short: "h", default: false },
  },
});
if (options.help) {
  process.stdout.write(help);
  process.exit(0);
}

function fail(message) {
  console.error(`compare: ${message}`);
  process.exit(1);
}

function positive(name) {
  const n = Number(options[name]);
  return Number.isInteger(n) && n > 0 ? n : fail(`--${name} needs a number above 0`);
}

const rounds = positive("rounds");
const threads = positive("threads");
const depth = positive("depth");
const groups = options.only.split(",");
for (const group of groups) {
  GROUPS.includes(group) || fail(`--only: '${group}' is none of ${GROUPS.join(", ")}`);
}
const formats = options.model ? [options.model] : options.formats.split(",");
const peerFolder = resolve(options.peer);
const projectors = options.projectors.split(",");
const needsText = groups.some((group) => group !== "audio");
const bin = join(peerFolder, "bin");
const PARALLEL = [1, 2, 4, 8, 16];
const FIRST_TEXT = " a b c d e f g h i j k l m n o p"; // 16 tokens of any byte-level vocabulary
const MEMORY_CTX = 4096;
// Seconds of recordings. The peer computes 30 seconds of every shorter one; the longer clip has as
// much work for both.
const CLIPS = [11, 29];
const OMNI = "qwen2.5-omni-3b";
// The peer's settings at depth: its choice of attention decides much.
const PEER_DEPTHS = [
  { name: "f16, no flash attention", kv: "f16", flash: "0" },
  { name: "f16, flash attention", kv: "f16", flash: "1" },
  { name: "q8_0, flash attention", kv: "q8_0", flash: "1" },
];

const samples = new Map(); // key -> numbers
const digests = new Map();


function add(key, value) {
  if (!samples.has(key)) samples.set(key, []);
  samples.get(key).push(value);
}

function median(key) {
  const list = [...(samples.get(key) ?? [])].sort((a, b) => a - b);
  if (list.length === 0) return NaN;
  const half = list.length >> 1;
  return list.length % 2 ? list[half] : (list[half - 1] + list[half]) / 2;
}

/* A command through `measure`: its output and what was measured of it. */
function run(command, args) {
  const report = join(tmpdir(), `lockstep-measure-${process.pid}.json`);
  const done = spawnSync(join(bin, "measure"), [report, command, ...args], {
    encoding: "utf8",
    maxBuffer: 1 << 26,
  });
  if (done.status !== 0) {
    fail(`${command} ${args.join(" ")}: status ${done.status}: ${done.stderr}`);
  }
  return { out: done.stdout, log: done.stderr, ...JSON.parse(readFileSync(report, "utf8")) };
}

function runOurs(args) {
  return run(options.tool, args);
}

/* Lines of the driver by test; `args` after the model. */
function runPeer(model, args) {
  const done = run(join(bin, "peer-run"), [model, "-t", String(threads), ...args]);
  const tests = new Map();
  for (const line of done.out.split("\n").filter((text) => text.startsWith("{"))) {
    const object = JSON.parse(line);
    tests.set(object.test, object.seconds);
  }
  return { ...done, tests };
}

function modelOf(format) {
  return options.model ?? join(peerFolder, "models", `${options.shape}-${format}.gguf`);
}

/* The speeds of the machine that a report of `lockstep bench` has. */
function addMachines(report) {
  for (const m of report.machines) {
    add("machine read", m.read_bytes_per_second / 1e9);
    add("machine int8", m.int8_ops_per_second / 1e9);
    add("machine matrix", m.matrix_ops_per_second / 1e9);
    add("machine float", m.float_ops_per_second / 1e9);
  }
}

/* `lockstep bench`; the speeds go under `prefix`, by the name of the test. */
function benchOurs(prefix, model, args) {
  const done = runOurs(["bench", model, "-t", String(threads), "-r", "1", "-o", "json", ...args]);
  const report = JSON.parse(done.out);
  addMachines(report);
  for (const r of report.results) {
    add(`ours ${prefix} ${r.test}`, r.tokens_per_second);
    if (r.limit_share > 0) {
      add(`limit ${prefix} ${r.test}`, 100 * r.limit_share);
      add(`vector ${prefix} ${r.test}`, 100 * r.vector_share);
    }
    const key = `${prefix} ${r.test}`;
    if (r.is_wrong || (digests.get(key) ?? r.logits) !== r.logits) {
      fail(`the logits of ${key} are not always the same`);
    }
    digests.set(key, r.logits);
  }
  return report;
}

function speed(format) {
  const model = modelOf(format);
  return [
    () => benchOurs(format, model, ["-p", "512", "-n", "128"]),
    () => {
      const { tests } = runPeer(model, ["-c", "1024", "pp512", "tg128"]);
      add(`peer ${format} pp512`, 512 / tests.get("pp512"));
      add(`peer ${format} tg128`, 128 / tests.get("tg128"));
    },
  ];
}

function batch() {
  const model = modelOf(formats[0]);
  return [
    () =>
      benchOurs("batch", model, ["-p", "0", "-n", "0", "-b", PARALLEL.join(","), "--no-warmup"]),
    () => {
      const n = Math.max(...PARALLEL);
      const args = ["-p", String(n), "-c", String(n * 128), ...PARALLEL.map((b) => `b${b}`)];
      const { tests } = runPeer(model, args);
      for (const b of PARALLEL) {
        add(`peer batch pp64 x${b}`, (64 * b) / tests.get(`pp64 b${b}`));
        add(`peer batch tg32 @ d64 x${b}`, (32 * b) / tests.get(`tg32 b${b}`));
      }
    },
  ];
}

function peerDepth(setting, tests) {
  return runPeer(modelOf(formats[0]), [
    ...["-c", String(depth + 512), "-d", String(depth), "-k", setting.kv, "-v", setting.kv],
    ...["-f", setting.flash, ...tests],
  ]).tests;
}

function atDepth() {
  const args = ["-p", "512", "-n", "128", "-d", String(depth), "--no-warmup"];
  return [
    () => {
      for (const kv of ["f16", "q8_0"]) {
        benchOurs(`depth ${kv}`, modelOf(formats[0]), [...args, "--kv-type", kv]);
      }
    },
    () => {
      for (const setting of PEER_DEPTHS) {
        const tests = peerDepth(setting, ["pp512", "tg32"]);
        add(`peer depth ${setting.name} pp512`, 512 / tests.get("pp512"));
        add(`peer depth ${setting.name} tg`, 32 / tests.get("tg32"));
      }
    },
  ];
}

/* From the start of the process to the first byte of the first token. */
function first() {
  const model = modelOf(formats[0]);
  const ours = ["run", model, "-p", FIRST_TEXT, "-n", "1", "--temp", "0", "-c", "512"];
  return [
    () => add("ours first", runOurs([...ours, "-t", String(threads), "--ignore-eos"]).seconds),
    () => {
      const done = runPeer(model, ["-c", "512", "-T", FIRST_TEXT]);
      add("peer first", done.seconds);
      add("peer load", done.tests.get("load"));
    },
    () => {
      const args = ["-p", "16", "-n", "0", "--no-warmup", "--no-machine"];
      add("ours load", benchOurs("first", model, args).models[0].load_seconds);
    },
  ];
}

/* Peak memory of a prompt of 512 tokens and 16 more, with room for 4,096. */
function memory() {
  const model = modelOf(formats[0]);
  const text = " a".repeat(512);
  const ours = ["run", model, "-p", text, "-n", "16", "--temp", "0", "-c", String(MEMORY_CTX)];
  return [
    () =>
      add("ours memory", runOurs([...ours, "-t", String(threads), "--ignore-eos"]).peak_bytes),
    () =>
      add("peer memory", runPeer(model, ["-c", String(MEMORY_CTX), "pp512", "tg16"]).peak_bytes),
  ];
}

/* Another process computes all the time: one core is taken. */
function busy() {
  const model = modelOf(formats[0]);
  const whileBusy = (work) => {
    const other = spawn("sh", ["-c", "while :; do :; done"], { stdio: "ignore" });
    try {
      work();
    } finally {
      other.kill("SIGKILL");
    }
  };
  const ours = (prefix) => benchOurs(prefix, model, ["-p", "0", "-n", "64", "--no-machine"]);
  const peer = (prefix) =>
    add(`peer ${prefix} tg64`, 64 / runPeer(model, ["-c", "512", "tg64"]).tests.get("tg64"));
  return [
    () => {
      ours("quiet");
      whileBusy(() => ours("busy"));
      if (digests.get("quiet tg64") !== digests.get("busy tg64")) {
        fail("a busy core changes the logits");
      }
    },
    () => {
      peer("quiet");
      whileBusy(() => peer("busy"));
    },
  ];
}

function omniFile(name) {
  return join(peerFolder, "models", `${OMNI}-${name}.gguf`);
}

function projectorFile(format) {
  return omniFile(`mmproj-${format}`);
}

function clipFile(seconds) {
  return join(peerFolder, "models", `clip-${seconds}s.wav`);
}

/* A WAV file of a tone: the time does not depend on what is heard. */
function writeClip(seconds) {
  const n = 16000 * seconds;
  const bytes = Buffer.alloc(44 + 2 * n);
  bytes.write("RIFF", 0, "latin1");
  bytes.writeUInt32LE(36 + 2 * n, 4);
  bytes.write("WAVEfmt ", 8, "latin1");
  [16, 0x00010001, 16000, 32000, 0x00100002].forEach((x, i) => bytes.writeUInt32LE(x, 16 + 4 * i));
  bytes.write("data", 36, "latin1");
  bytes.writeUInt32LE(2 * n, 40);
  for (let i = 0; i < n; i++) {
    bytes.writeInt16LE(Math.round(8000 * Math.sin(0.2 * i + 30 * Math.sin(i / 3000))), 44 + 2 * i);
  }
  writeFileSync(clipFile(seconds), bytes);
}

/* The encoder of recordings alone, features to vectors. */
function audio(format) {
  const file = projectorFile(format);
  const ours = ["--mmproj", file, "--audio", CLIPS.join(","), "-t", String(threads), "-r", "1"];
  const done = /mtmd batch encoding done in (\d+) ms/;
  return [
    () => {
      const report = JSON.parse(runOurs(["bench", ...ours, "-o", "json"]).out);
      addMachines(report);
      for (const r of report.audio) {
        const key = `audio ${format} ${r.clip_seconds}`;
        add(`ours ${key}`, r.median_seconds);
        add(`limit ${key}`, 100 * r.limit_share);
        if (r.clip_seconds === CLIPS[0]) add("ours features", 1000 * r.features_seconds);
        if (r.is_wrong || (digests.get(key) ?? r.vectors) !== r.vectors) {
          fail(`the vectors of ${key} are not always the same`);
        }
        digests.set(key, r.vectors);
      }
    },
    () => {
      for (const seconds of CLIPS) {
        const args = ["-m", omniFile("text"), "--mmproj", file, "--audio", clipFile(seconds)];
        args.push("-p", "Transcribe.", "-n", "1", "--temp", "0", "-c", "2048");
        const { out, log } = run(join(bin, "llama-mtmd-cli"), [...args, "-t", String(threads)]);
        const found = done.exec(log) ?? done.exec(out);
        found ?? fail(`llama-mtmd-cli does not say how long it took: ${log}`);
        add(`peer audio ${format} ${seconds}`, Number(found[1]) / 1000);
      }
    },
  ];
}

function writeModel(shape, format, file, ...more) {
  if (existsSync(file)) return;
  console.error(`compare: writing ${file}`);
  const args = ["make-random", shape, format, file, ...more];
  if (spawnSync(options.tool, args, { stdio: "inherit" }).status !== 0) {
    fail(`${file} could not be written`);
  }
}

function prepareAudio() {
  const built = spawnSync("sh", [join(here, "audio.sh"), peerFolder], { stdio: "inherit" });
  if (built.status !== 0) fail("the peer's tool for recordings could not be built");
  for (const format of projectors) writeModel(`${OMNI}-mmproj`, format, projectorFile(format));
  writeModel(OMNI, "Q8_0", omniFile("text"), "--layers", "1"); // it only has to be there
  for (const seconds of CLIPS) writeClip(seconds);
}

function prepare() {
  const setup = spawnSync("sh", [join(here, "setup.sh"), peerFolder], { stdio: "inherit" });
  if (setup.status !== 0) fail("the peer could not be set up");
  existsSync(options.tool) || fail(`${options.tool} does not exist; build it, or give --tool`);
  mkdirSync(join(peerFolder, "models"), { recursive: true });
  for (const format of options.model || !needsText ? [] : formats) {
    writeModel(options.shape, format, modelOf(format));
  }
  if (groups.includes("audio")) prepareAudio();
}

/* Files into the page cache, so that the first round is like the others. */
function warm() {
  const files = needsText ? formats.map(modelOf) : [];
  const encoders = groups.includes("audio") ? projectors.map(projectorFile) : [];
  for (const file of [...files, ...encoders]) {
    spawnSync("sh", ["-c", 'cat "$1" >/dev/null', "sh", file]);
  }
}

function number(x, digits = 1) {
  return Number.isFinite(x) ? x.toFixed(digits) : "-";
}

function row(name, ours, peer, { unit = "t/s", lessIsBetter = false, limit, digits = 1 } = {}) {
  const a = median(ours);
  const b = median(peer);
  const ratio = lessIsBetter ? b / a : a / b;
  const share = (kind) => {
    const x = limit !== undefined ? median(`${kind} ${limit}`) : NaN;
    return Number.isFinite(x) ? `${number(x, 0)} %` : "";
  };
  console.log(
    `| ${name} | ${number(a, digits)} | ${number(b, digits)} | ${unit} | ${number(ratio, 2)} | ` +
      `${share("limit")} | ${share("vector")} |`,
  );
}

function printTable() {
  const model = modelOf(formats[0]);
  const shape = needsText ? (options.model ?? options.shape) : OMNI;
  console.log(
    `\nShape ${shape}, ${threads} threads, medians of alternating runs. ` +
      `Machine: reads ${number(median("machine read"))} GB/s, int8 ` +
      `${number(median("machine int8"), 0)} GOP/s, matrix units ` +
      `${number(median("machine matrix"), 0)} GOP/s, float ` +
      `${number(median("machine float"), 0)} GOP/s (medians).\n`,
  );
  console.log("| measure | Lockstep | peer | unit | ratio | of the limit | without matrix units |");
  console.log("| --- | ---: | ---: | --- | ---: | ---: | ---: |");
  if (groups.includes("speed")) {
    for (const format of formats) {
      for (const test of ["pp512", "tg128"]) {
        const key = `${format} ${test}`;
        row(`${test}, ${format}`, `ours ${key}`, `peer ${key}`, { limit: key });
      }
    }
  }
  if (groups.includes("batch")) {
    for (const b of PARALLEL) {
      const key = `batch tg32 @ d64 x${b}`;
      const alone = median(`ours ${key}`) / median("ours batch tg32 @ d64 x1");
      const name = `tg, ${b} sequences (${number(alone, 2)} x ours alone)`;
      row(name, `ours ${key}`, `peer ${key}`, { limit: key });
    }
  }
  if (groups.includes("depth")) {
    for (const kv of ["f16", "q8_0"]) {
      for (const setting of PEER_DEPTHS.filter((peer) => kv === "q8_0" || peer.kv === kv)) {
        const pp = `depth ${kv} pp512 @ d${depth}`;
        const tg = `depth ${kv} tg128 @ d${depth}`;
        const name = `ours ${kv}, peer ${setting.name}`;
        row(`pp512 at ${depth}, ${name}`, `ours ${pp}`, `peer depth ${setting.name} pp512`, {
          limit: pp,
        });
        row(`tg at ${depth}, ${name}`, `ours ${tg}`, `peer depth ${setting.name} tg`, {
          limit: tg,
        });
      }
    }
  }
  if (groups.includes("first")) {
    const s = { unit: "s", lessIsBetter: true, digits: 3 };
    row("start to first token, 16-token prompt", "ours first", "peer first", s);
    row("loading alone", "ours load", "peer load", s);
  }
  if (groups.includes("memory")) {
    const mib = 1 / 1048576;
    add("ours memory mib", median("ours memory") * mib);
    add("peer memory mib", median("peer memory") * mib);
    row(`peak memory, file of ${number(statSync(model).size * mib)} MiB`, "ours memory mib",
      "peer memory mib", { unit: "MiB", lessIsBetter: true });
  }
  if (groups.includes("busy")) {
    for (const state of ["quiet", "busy"]) {
      row(`tg64, ${state}`, `ours ${state} tg64`, `peer ${state} tg64`);
    }
    const kept = (who) => number((100 * median(`${who} busy tg64`)) / median(`${who} quiet tg64`), 0);
    console.log(`\nWith a busy core: Lockstep keeps ${kept("ours")} %, the peer ${kept("peer")} %.`);
  }
  if (groups.includes("audio")) {
    for (const format of projectors) {
      for (const seconds of CLIPS) {
        const key = `audio ${format} ${seconds}`;
        row(`encoder, ${seconds} s, ${format}`, `ours ${key}`, `peer ${key}`, {
          unit: "s",
          lessIsBetter: true,
          digits: 2,
          limit: key,
        });
      }
    }
    const features = number(Math.min(...samples.get("ours features")));
    console.log(`\nFeatures of ${CLIPS[0]} s: ${features} ms on one thread.`);
  }
}

prepare();
if (options.prepare) process.exit(0);
warm();
const begin = Date.now();
for (let round = 0; round < rounds; round++) {
  const tasks = [];
  if (groups.includes("speed")) for (const format of formats) tasks.push(speed(format));
  if (groups.includes("batch")) tasks.push(batch());
  if (groups.includes("depth") && round < 2) tasks.push(atDepth());
  if (groups.includes("first")) tasks.push(first());
  if (groups.includes("memory") && round === 0) tasks.push(memory());
  if (groups.includes("busy")) tasks.push(busy());
  if (groups.includes("audio")) for (const format of projectors) tasks.push(audio(format));
  for (const task of tasks) {
    for (const work of round % 2 === 0 ? task : [...task].reverse()) work();
  }
  const minutes = (Date.now() - begin) / 60000;
  console.error(`compare: round ${round + 1} of ${rounds} after ${minutes.toFixed(1)} minutes`);
}
printTable();
if (options.json) {
  writeFileSync(options.json, JSON.stringify(Object.fromEntries(samples), null, 1));
}
