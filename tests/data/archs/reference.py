"""reference.py - a forward pass in float64 for the architectures qwen2, qwen3moe and qwen2moe, in
plain Python, from the published descriptions of the models; it knows nothing of the engine.

    reference.py check   the passes over qwen2.gguf and qwen3moe.gguf against their logits, which an
                         implementation of other authors computed
    reference.py make    writes qwen2moe.gguf (random weights) and qwen2moe.logits.f32

In the folder of this file.
"""
import math, os, random, struct, sys
from array import array

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Reader:
    def __init__(self, path):
        self.b = open(path, "rb").read()
        self.at = 24
        n_tensors, n_keys = struct.unpack_from("<QQ", self.b, 8)
        self.keys, self.raw, self.tensors = {}, [], {}
        for _ in range(n_keys):
            begin = self.at
            key = self.text()
            self.keys[key] = self.value(self.take("I"))
            self.raw.append((key, self.b[begin:self.at]))
        infos = []
        for _ in range(n_tensors):
            name, n_dims = self.text(), self.take("I")
            ne = [self.take("Q") for _ in range(n_dims)]
            infos.append((name, ne, self.take("I"), self.take("Q")))
        start = (self.at + 31) // 32 * 32
        for name, ne, kind, offset in infos:
            assert kind == 0
            values = array("f", self.b[start + offset:start + offset + 4 * math.prod(ne)])
            self.tensors[name] = (ne, [float(v) for v in values])

    def take(self, code):
        (v,) = struct.unpack_from("<" + code, self.b, self.at)
        self.at += struct.calcsize("<" + code)
        return v

    def text(self):
        n = self.take("Q")
        self.at += n
        return self.b[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            kind, n = self.take("I"), self.take("Q")
            return [self.value(kind) for _ in range(n)]
        return self.take(SIZES[kind])


class Model:
    def __init__(self, keys, tensors):
        self.arch = keys["general.architecture"]
        self.k = {k[len(self.arch) + 1:]: v for k, v in keys.items() if k.startswith(self.arch + ".")}
        self.t = tensors

    def mul(self, x, name, expert=None):
        ne, w = self.t[name]
        n, rows = ne[0], ne[1] if len(ne) > 1 else 1
        at = 0 if expert is None else expert * n * rows
        return [math.fsum(map(lambda a, b: a * b, x, w[at + r * n:at + r * n + n])) for r in range(rows)]

    def norm(self, x, name):
        c = 1 / math.sqrt(math.fsum(v * v for v in x) / len(x) + self.k["attention.layer_norm_rms_epsilon"])
        return [v * c * w for v, w in zip(x, self.t[name][1])]

    def experts(self, x, b):
        logits = self.mul(x, b + "ffn_gate_inp.weight")
        m = max(logits)
        e = [math.exp(v - m) for v in logits]
        p = [v / math.fsum(e) for v in e]
        best = sorted(range(len(p)), key=lambda i: -p[i])[:self.k["expert_used_count"]]
        total = math.fsum(p[i] for i in best) if self.arch == "qwen3moe" else 1.0
        y = [0.0] * len(x)
        for i in best:
            out = self.gated(x, b, "_exps", i)
            y = [a + p[i] / total * o for a, o in zip(y, out)]
        if self.arch == "qwen2moe":
            (gate,) = self.mul(x, b + "ffn_gate_inp_shexp.weight")
            out = self.gated(x, b, "_shexp", None)
            y = [a + o / (1 + math.exp(-gate)) for a, o in zip(y, out)]
        return y

    def gated(self, x, b, suffix, i):
        gate = self.mul(x, b + "ffn_gate%s.weight" % suffix, i)
        up = self.mul(x, b + "ffn_up%s.weight" % suffix, i)
        return self.mul([g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)], b + "ffn_down%s.weight" % suffix, i)

    def rotate(self, v, pos):
        half = len(v) // 2
        out = list(v)
        for i in range(half):
            a = pos * self.k["rope.freq_base"] ** (-2.0 * i / len(v))
            c, s = math.cos(a), math.sin(a)
            out[i], out[i + half] = v[i] * c - v[i + half] * s, v[i] * s + v[i + half] * c
        return out

    def heads(self, x, b, part, pos):
        y = self.mul(x, b + "attn_%s.weight" % part)
        if b + "attn_%s.bias" % part in self.t:
            y = [u + v for u, v in zip(y, self.t[b + "attn_%s.bias" % part][1])]
        n = len(y) // self.k["attention.head_count" if part == "q" else "attention.head_count_kv"]
        y = [y[i:i + n] for i in range(0, len(y), n)]
        if b + "attn_%s_norm.weight" % part in self.t:
            y = [self.norm(h, b + "attn_%s_norm.weight" % part) for h in y]
        return y if part == "v" else [self.rotate(h, pos) for h in y]

    def run(self, tokens, wanted):
        n_embd = self.k["embedding_length"]
        emb = self.t["token_embd.weight"][1]
        cache = [([], []) for _ in range(self.k["block_count"])]
        rows = []
        for pos, token in enumerate(tokens):
            x = emb[token * n_embd:(token + 1) * n_embd]
            for layer, (keys, values) in enumerate(cache):
                b = "blk.%d." % layer
                h = self.norm(x, b + "attn_norm.weight")
                q = self.heads(h, b, "q", pos)
                keys.append(self.heads(h, b, "k", pos))
                values.append(self.heads(h, b, "v", pos))
                o = []
                for i, head in enumerate(q):
                    j = i * len(keys[0]) // len(q)
                    s = [math.fsum(map(lambda a, c: a * c, head, k[j])) / math.sqrt(len(head)) for k in keys]
                    m = max(s)
                    e = [math.exp(v - m) for v in s]
                    total = math.fsum(e)
                    o += [math.fsum(p * v[j][d] for p, v in zip(e, values)) / total for d in range(len(head))]
                x = [a + c for a, c in zip(x, self.mul(o, b + "attn_output.weight"))]
                h = self.norm(x, b + "ffn_norm.weight")
                y = self.gated(h, b, "", None) if self.arch == "qwen2" else self.experts(h, b)
                x = [a + c for a, c in zip(x, y)]
            if pos in wanted:
                h = self.norm(x, "output_norm.weight")
                rows.append(self.mul(h, "output.weight" if "output.weight" in self.t else "token_embd.weight"))
        return rows


def sequences():
    lines = open(os.path.join(HERE, "sequences.txt")).read().split("\n")
    for i in range(0, 6, 2):
        yield [int(v) for v in lines[i].split()[2:]], [int(v) for v in lines[i + 1].split()[2:]]


def path(name):
    return os.path.join(HERE, name)


def check():
    for name in "qwen2", "qwen3moe":
        r = Reader(path(name + ".gguf"))
        rows = [row for s in sequences() for row in Model(r.keys, r.tensors).run(*s)]
        want = array("f", open(path(name + ".logits.f32"), "rb").read())
        worst = 0.0
        for i, row in enumerate(rows):
            w = want[i * len(row):(i + 1) * len(row)]
            worst = max(worst, math.sqrt(math.fsum((a - c) ** 2 for a, c in zip(row, w)) /
                                         math.fsum(c * c for c in w)))
        print("%s: %d rows, worst relative L2 %.2g" % (name, len(rows), worst))


def make():
    rng = random.Random(20261130)
    keys = {"general.architecture": "qwen2moe", "general.name": "tiny random qwen2moe"}
    for k, v in dict(context_length=256, embedding_length=64, block_count=2, feed_forward_length=96,
                     expert_count=8, expert_used_count=2, expert_feed_forward_length=32,
                     expert_shared_feed_forward_length=48).items():
        keys["qwen2moe." + k] = v
    keys.update({"qwen2moe.attention.head_count": 4, "qwen2moe.attention.head_count_kv": 2,
                 "qwen2moe.attention.layer_norm_rms_epsilon": struct.unpack("f", struct.pack("f", 1e-6))[0],
                 "qwen2moe.rope.freq_base": 1000000.0})
    shapes = {"token_embd.weight": [64, 128], "output_norm.weight": [64], "output.weight": [64, 128]}
    for layer in range(2):
        b = "blk.%d." % layer
        shapes.update({b + "attn_norm.weight": [64], b + "attn_q.weight": [64, 64], b + "attn_k.weight": [64, 32],
                       b + "attn_v.weight": [64, 32], b + "attn_q.bias": [64], b + "attn_k.bias": [32],
                       b + "attn_v.bias": [32], b + "attn_output.weight": [64, 64], b + "ffn_norm.weight": [64],
                       b + "ffn_gate_inp.weight": [64, 8], b + "ffn_gate_exps.weight": [64, 32, 8],
                       b + "ffn_up_exps.weight": [64, 32, 8], b + "ffn_down_exps.weight": [32, 64, 8],
                       b + "ffn_gate_inp_shexp.weight": [64], b + "ffn_gate_shexp.weight": [64, 48],
                       b + "ffn_up_shexp.weight": [64, 48], b + "ffn_down_shexp.weight": [48, 64]})
    tensors = {}
    for name, ne in shapes.items():
        n = math.prod(ne)
        if name.endswith("norm.weight"):
            v = [rng.uniform(0.5, 1.5) for _ in range(n)]
        else:
            scale = 0.5 if name.endswith("bias") else 1.0 if name == "token_embd.weight" else 1.6 / math.sqrt(ne[0])
            v = [rng.gauss(0.0, scale) for _ in range(n)]
        tensors[name] = (ne, [float(x) for x in array("f", v)])
    text = lambda s: struct.pack("<Q", len(s)) + s.encode()
    head = [r for k, r in Reader(path("qwen2.gguf")).raw if k.startswith("tokenizer.")]
    for k, v in keys.items():
        kind, raw = (8, text(v)) if isinstance(v, str) else (4, struct.pack("<I", v)) if isinstance(v, int) \
            else (6, struct.pack("<f", v))
        head.append(text(k) + struct.pack("<I", kind) + raw)
    infos, data = b"", b""
    for name, (ne, v) in tensors.items():
        infos += text(name) + struct.pack("<I", len(ne)) + struct.pack("<%dQ" % len(ne), *ne)
        infos += struct.pack("<IQ", 0, len(data))
        data += array("f", v).tobytes()
        data += bytes(-len(data) % 32)
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(head)) + b"".join(head) + infos
    open(path("qwen2moe.gguf"), "wb").write(out + bytes(-len(out) % 32) + data)
    m = Model(keys, tensors)
    rows = [row for s in sequences() for row in m.run(*s)]
    open(path("qwen2moe.logits.f32"), "wb").write(b"".join(array("f", r).tobytes() for r in rows))


if __name__ == "__main__":
    check() if sys.argv[1:] == ["check"] else make() if sys.argv[1:] == ["make"] else sys.exit(__doc__)
