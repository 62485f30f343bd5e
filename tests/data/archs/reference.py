"""reference.py - a forward pass in float64 for the architectures in KNOWN and MADE, in plain
Python, from the published descriptions of the models; it knows nothing of the engine.

    reference.py check         the passes over the models of KNOWN against their logits, which
                               another implementation computed: together they have each piece that
                               a model of MADE has
    reference.py make NAME     writes NAME.gguf (random weights) and NAME.logits.f32; NAME of MADE
    reference.py mistakes NAME how far each mistake of WRONG moves the logits of the last sequence

In the folder of this file.
"""
import math, os, random, struct, sys
from array import array

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


KNOWN = "llama", "olmo2", "phi3", "qwen2", "qwen3moe"
MADE = "glm4", "qwen2moe", "qwen2vl"
WRONG = {"glm4": ("pairing", "all of the head", "biases", "norms after", "up first"),
         "qwen2vl": ("pairing", "biases", "height and width stand still")}
NEIGHBOURS = "glm4", "llama"  # the rotary embedding turns elements 2i and 2i + 1, not i and i + n/2


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
    def __init__(self, keys, tensors, wrong=None):
        self.wrong = wrong
        self.arch = keys["general.architecture"]
        self.k = {k[len(self.arch) + 1:]: v for k, v in keys.items() if k.startswith(self.arch + ".")}
        self.t = tensors

    def mul(self, x, name, expert=None):
        ne, w = self.t[name]
        n, rows = ne[0], ne[1] if len(ne) > 1 else 1
        at = 0 if expert is None else expert * n * rows
        return [math.fsum(map(lambda a, b: a * b, x, w[at + r * n:at + r * n + n])) for r in range(rows)]

    def has(self, name, wrong=None):
        return name in self.t and (wrong is None or self.wrong != wrong)

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
        up = self.mul(x, b + "ffn_up%s.weight" % suffix, i)
        if self.has(b + "ffn_gate%s.weight" % suffix):
            gate = self.mul(x, b + "ffn_gate%s.weight" % suffix, i)
        else:
            n = len(up) // 2
            gate, up = (up[n:], up[:n]) if self.wrong == "up first" else (up[:n], up[n:])
        return self.mul([g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)], b + "ffn_down%s.weight" % suffix, i)

    def rotate(self, v, pos):
        n = len(v) if self.wrong == "all of the head" else self.k.get("rope.dimension_count", len(v))
        out = list(v)
        components = [pos, pos, pos]  # time, height, width: text and audio have three equal ones
        if self.wrong == "height and width stand still":
            components = [pos, 0, 0]
        sections = self.k.get("rope.dimension_sections", [n // 2])
        component_of = [c for c, size in zip(components, sections) for _ in range(size)]
        for i in range(n // 2):
            near = (self.arch in NEIGHBOURS) != (self.wrong == "pairing")
            p, q = (2 * i, 2 * i + 1) if near else (i, i + n // 2)
            a = component_of[i] * self.k["rope.freq_base"] ** (-2.0 * i / n)
            c, s = math.cos(a), math.sin(a)
            out[p], out[q] = v[p] * c - v[q] * s, v[p] * s + v[q] * c
        return out

    def heads(self, x, b, part, pos):
        n_q, n_kv = self.k["attention.head_count"], self.k["attention.head_count_kv"]
        if self.has(b + "attn_qkv.weight"):
            y = self.mul(x, b + "attn_qkv.weight")
            n = len(y) // (n_q + 2 * n_kv)
            y = y[:n_q * n] if part == "q" else y[n_q * n:-n_kv * n] if part == "k" else y[-n_kv * n:]
        else:
            y = self.mul(x, b + "attn_%s.weight" % part)
        if self.has(b + "attn_%s.bias" % part, "biases"):
            y = [u + v for u, v in zip(y, self.t[b + "attn_%s.bias" % part][1])]
        norm, n = b + "attn_%s_norm.weight" % part, len(y) // (n_q if part == "q" else n_kv)
        if self.has(norm) and len(self.t[norm][1]) == len(y):
            y = self.norm(y, norm)
        y = [y[i:i + n] for i in range(0, len(y), n)]
        if self.has(norm) and len(self.t[norm][1]) == n:
            y = [self.norm(h, norm) for h in y]
        return y if part == "v" else [self.rotate(h, pos) for h in y]

    def add(self, x, y, after):
        if self.has(after, "norms after"):
            y = self.norm(y, after)
        return [a + c for a, c in zip(x, y)]

    def run(self, tokens, wanted):
        n_embd = self.k["embedding_length"]
        emb = self.t["token_embd.weight"][1]
        cache = [([], []) for _ in range(self.k["block_count"])]
        rows = []
        for pos, token in enumerate(tokens):
            x = emb[token * n_embd:(token + 1) * n_embd]
            for layer, (keys, values) in enumerate(cache):
                b = "blk.%d." % layer
                h = self.norm(x, b + "attn_norm.weight") if self.has(b + "attn_norm.weight") else x
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
                x = self.add(x, self.mul(o, b + "attn_output.weight"), b + "post_attention_norm.weight")
                h = self.norm(x, b + "ffn_norm.weight") if self.has(b + "ffn_norm.weight") else x
                y = self.experts(h, b) if self.has(b + "ffn_gate_inp.weight") else self.gated(h, b, "", None)
                x = self.add(x, y, b + "post_ffw_norm.weight")
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


def distance(rows, want):
    """The worst relative L2 of a row."""
    return max(math.sqrt(math.fsum((a - c) ** 2 for a, c in zip(r, w)) / math.fsum(c * c for c in w))
               for r, w in zip(rows, want))


def check():
    for name in KNOWN:
        r = Reader(path(name + ".gguf"))
        rows = [row for s in sequences() for row in Model(r.keys, r.tensors).run(*s)]
        want = array("f", open(path(name + ".logits.f32"), "rb").read())
        n = len(rows[0])
        assert len(want) == len(rows) * n
        worst = distance(rows, [want[i * n:i * n + n] for i in range(len(rows))])
        print("%s: %d rows, worst relative L2 %.2g" % (name, len(rows), worst))


def mistakes(name):
    r = Reader(path(name + ".gguf"))
    tokens, wanted = list(sequences())[-1]
    right = Model(r.keys, r.tensors).run(tokens, wanted)
    for wrong in WRONG[name]:
        found = distance(Model(r.keys, r.tensors, wrong).run(tokens, wanted), right)
        print("%s, %s: %.3g" % (name, wrong, found))


def float32(v):
    return struct.unpack("f", struct.pack("f", v))[0]


def qkv_shapes(b):
    return {b + "attn_norm.weight": [64], b + "attn_q.weight": [64, 64], b + "attn_k.weight": [64, 32],
            b + "attn_v.weight": [64, 32], b + "attn_q.bias": [64], b + "attn_k.bias": [32],
            b + "attn_v.bias": [32], b + "attn_output.weight": [64, 64], b + "ffn_norm.weight": [64]}


def glm4():
    keys = dict(context_length=256, embedding_length=64, block_count=2, feed_forward_length=96)
    keys.update({"attention.head_count": 4, "attention.head_count_kv": 2, "attention.key_length": 16,
                 "attention.value_length": 16, "attention.layer_norm_rms_epsilon": float32(1e-5),
                 "rope.freq_base": 10000.0, "rope.dimension_count": 8})
    shapes = {}
    for layer in range(2):
        b = "blk.%d." % layer
        shapes.update(qkv_shapes(b))
        shapes.update({b + "post_attention_norm.weight": [64], b + "ffn_up.weight": [64, 192],
                       b + "ffn_down.weight": [96, 64], b + "post_ffw_norm.weight": [64]})
    return keys, shapes


def qwen2moe():
    keys = dict(context_length=256, embedding_length=64, block_count=2, feed_forward_length=96,
                expert_count=8, expert_used_count=2, expert_feed_forward_length=32,
                expert_shared_feed_forward_length=48)
    keys.update({"attention.head_count": 4, "attention.head_count_kv": 2,
                 "attention.layer_norm_rms_epsilon": float32(1e-6), "rope.freq_base": 1000000.0})
    shapes = {}
    for layer in range(2):
        b = "blk.%d." % layer
        shapes.update(qkv_shapes(b))
        shapes.update({b + "ffn_gate_inp.weight": [64, 8], b + "ffn_gate_exps.weight": [64, 32, 8],
                       b + "ffn_up_exps.weight": [64, 32, 8], b + "ffn_down_exps.weight": [32, 64, 8],
                       b + "ffn_gate_inp_shexp.weight": [64], b + "ffn_gate_shexp.weight": [64, 48],
                       b + "ffn_up_shexp.weight": [64, 48], b + "ffn_down_shexp.weight": [48, 64]})
    return keys, shapes


def qwen2vl():
    keys = dict(context_length=256, embedding_length=64, block_count=2, feed_forward_length=96)
    keys.update({"attention.head_count": 4, "attention.head_count_kv": 2,
                 "attention.layer_norm_rms_epsilon": float32(1e-6), "rope.freq_base": 1000000.0,
                 "rope.dimension_sections": [2, 3, 3, 0]})
    shapes = {}
    for layer in range(2):
        b = "blk.%d." % layer
        shapes.update(qkv_shapes(b))
        shapes.update({b + "ffn_gate.weight": [64, 96], b + "ffn_up.weight": [64, 96],
                       b + "ffn_down.weight": [96, 64]})
    return keys, shapes


def make(arch):
    rng = random.Random(20261130)
    own, layers = {"glm4": glm4, "qwen2moe": qwen2moe, "qwen2vl": qwen2vl}[arch]()
    keys = {"general.architecture": arch, "general.name": "tiny random " + arch}
    keys.update({arch + "." + k: v for k, v in own.items()})
    shapes = {"token_embd.weight": [64, 128], "output_norm.weight": [64], "output.weight": [64, 128]}
    shapes.update(layers)
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
            else (9, struct.pack("<IQ%di" % len(v), 5, len(v), *v)) if isinstance(v, list) \
            else (6, struct.pack("<f", v))
        head.append(text(k) + struct.pack("<I", kind) + raw)
    infos, data = b"", b""
    for name, (ne, v) in tensors.items():
        infos += text(name) + struct.pack("<I", len(ne)) + struct.pack("<%dQ" % len(ne), *ne)
        infos += struct.pack("<IQ", 0, len(data))
        data += array("f", v).tobytes()
        data += bytes(-len(data) % 32)
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(head)) + b"".join(head) + infos
    open(path(arch + ".gguf"), "wb").write(out + bytes(-len(out) % 32) + data)
    m = Model(keys, tensors)
    rows = [row for s in sequences() for row in m.run(*s)]
    open(path(arch + ".logits.f32"), "wb").write(b"".join(array("f", r).tobytes() for r in rows))


if __name__ == "__main__":
    if sys.argv[1:] == ["check"]:
        check()
    elif len(sys.argv) == 3 and sys.argv[1] == "make" and sys.argv[2] in MADE:
        make(sys.argv[2])
    elif len(sys.argv) == 3 and sys.argv[1] == "mistakes" and sys.argv[2] in WRONG:
        mistakes(sys.argv[2])
    else:
        sys.exit(__doc__)
