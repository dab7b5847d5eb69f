"""Trains the default model: text from `grammar.py`, a tokenizer, a small Llama, a Q8_0 GGUF and reference logits.

    python train.py                    writes default.gguf and reference.json next to this file
    python train.py --check            checks default.gguf against reference.json with numpy only
    python train.py --steps 60 --out DIR    a short run for experiments

README.md documents the versions, the run time and the contents of the files.
"""

import argparse
import hashlib
import io
import json
import math
import time
from pathlib import Path

import gguf
import numpy

import grammar

HERE = Path(__file__).resolve().parent
SEED = 20261121
VOCABULARY = 1024
CONTEXT = 256
WIDTH = 192
LAYERS = 4
HEADS = 6
KEY_VALUE_HEADS = 2
HEAD_WIDTH = WIDTH // HEADS
FEED_FORWARD = 512
EPSILON = 1e-5
ROPE_BASE = 10000.0
UNKNOWN, BEGIN, END = 0, 1, 2
BATCH = 12
NAMES_UNTIL, EXCERPTS_UNTIL, STEPS, DECAY = 60, 160, 900, 80
REFERENCE_PROMPT = "Once upon a time there was a little fox named Luna who lived in a den under the roots. She wanted to"
REFERENCE_NEW_TOKENS = 64


# ---- tokenizer ----------------------------------------------------------------------------------------------------------


def train_tokenizer():
    """A sentencepiece BPE model with byte fallback, trained on 4000 stories. The score of a piece is minus its merge rank."""
    import sentencepiece

    dice = grammar.Dice(SEED)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(grammar.story(dice) for _ in range(4000)), model_writer=model, model_type="bpe",
        vocab_size=VOCABULARY, byte_fallback=True, character_coverage=1.0, normalization_rule_name="identity",
        remove_extra_whitespaces=False, split_digits=True, num_threads=1, minloglevel=2,
        unk_id=UNKNOWN, bos_id=BEGIN, eos_id=END, pad_id=-1)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def token_table(tokenizer):
    """Pieces, scores and GGUF token types, ordered by id."""
    pieces, scores, kinds = [], [], []
    for index in range(tokenizer.vocab_size()):
        pieces.append(tokenizer.id_to_piece(index))
        scores.append(tokenizer.get_score(index))
        kinds.append(gguf.TokenType.UNKNOWN if tokenizer.is_unknown(index) else gguf.TokenType.CONTROL if tokenizer.is_control(index)
                     else gguf.TokenType.BYTE if tokenizer.is_byte(index) else gguf.TokenType.NORMAL)
    return pieces, scores, kinds


def encode(text, pieces, scores):
    """The algorithm of a GGUF tokenizer, without the leading begin token; compared with sentencepiece below.

    Prepends a space and replaces spaces by U+2581. Then repeatedly joins the adjacent pair whose text is the piece with the
    highest score (the leftmost on ties), until no pair is a piece. Symbols that are not pieces become byte tokens.
    """
    ids = {piece: index for index, piece in enumerate(pieces)}
    symbols = list((" " + text if text else text).replace(" ", "\u2581"))
    while True:
        best = None
        for at in range(len(symbols) - 1):
            index = ids.get(symbols[at] + symbols[at + 1])
            if index is not None and (best is None or scores[index] > best[0]):
                best = (scores[index], at)
        if best is None:
            break
        symbols[best[1]:best[1] + 2] = [symbols[best[1]] + symbols[best[1] + 1]]
    tokens = []
    for symbol in symbols:
        tokens += [ids[symbol]] if symbol in ids else [ids[f"<0x{byte:02X}>"] for byte in symbol.encode()]
    return tokens


def decode(tokens, pieces):
    """The text of tokens: joins byte tokens as UTF-8, skips control tokens, removes the leading space."""
    data = b"".join(bytes([int(pieces[token][3:5], 16)]) if pieces[token].startswith("<0x") else pieces[token].replace("\u2581", " ").encode()
                    for token in tokens if token not in (UNKNOWN, BEGIN, END))
    return data.decode(errors="replace").removeprefix(" ")


def verify_tokenizer(tokenizer, pieces, scores):
    """`encode` must equal sentencepiece on 1000 sentences and on text that the grammar never generates."""
    dice = grammar.Dice(SEED + 1)
    odd = ["", " ", "  two  spaces ", "Zürich 12:30, 5 € — 日本語 🦊", "tab\tand\nnewline", "UPPER lower", "<s> </s> <0x41>", "a" * 50]
    sentences = odd + [sentence for _ in range(80) for sentence in grammar.story(dice).split(". ")][:1000]
    for sentence in sentences:
        ours, theirs = encode(sentence, pieces, scores), tokenizer.encode(sentence)
        assert ours == theirs, f"tokenizers differ on {sentence!r}: {ours} and {theirs}"
        assert decode(ours, pieces) == sentence, f"`{sentence}` is decoded as `{decode(ours, pieces)}`"
    print(f"tokenizer: {len(pieces)} pieces, equal to sentencepiece on {len(sentences)} texts")


# ---- model and training -------------------------------------------------------------------------------------------------


def tensor_shapes():
    """Names as in GGUF, and (outputs, inputs) as in PyTorch. The output matrix is the embedding."""
    kv_width = KEY_VALUE_HEADS * HEAD_WIDTH
    shapes = {"token_embd.weight": (VOCABULARY, WIDTH)}
    for layer in range(LAYERS):
        block = {"attn_norm": (WIDTH,), "attn_q": (WIDTH, WIDTH), "attn_k": (kv_width, WIDTH), "attn_v": (kv_width, WIDTH),
                 "attn_output": (WIDTH, WIDTH), "ffn_norm": (WIDTH,), "ffn_gate": (FEED_FORWARD, WIDTH),
                 "ffn_up": (FEED_FORWARD, WIDTH), "ffn_down": (WIDTH, FEED_FORWARD)}
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in block.items()}
    return shapes | {"output_norm.weight": (WIDTH,)}


def initial_weights(torch):
    torch.manual_seed(SEED)
    weights = {}
    for name, shape in tensor_shapes().items():
        if len(shape) == 1:
            weights[name] = torch.ones(shape)
        else:
            deviation = 0.02 if name == "token_embd.weight" else shape[1] ** -0.5
            if name.endswith(("attn_output.weight", "ffn_down.weight")):
                deviation /= math.sqrt(2 * LAYERS)
            weights[name] = torch.randn(shape) * deviation
    return {name: weight.requires_grad_() for name, weight in weights.items()}


def forward(torch, weights, tokens):
    """Logits (rows, positions, vocabulary) of a Llama in the precision of its weights. Rope rotates the pairs (2i, 2i+1)."""
    functional = torch.nn.functional
    rows, length = tokens.shape
    kind = weights["output_norm.weight"].dtype
    frequency = ROPE_BASE ** (-torch.arange(0, HEAD_WIDTH, 2, dtype=torch.float64) / HEAD_WIDTH)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    cosine, sine = angle.cos().to(kind), angle.sin().to(kind)

    def norm(x, name):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON) * weights[name]

    def heads(x, weight, count):
        return (x @ weight.T).view(rows, length, count, HEAD_WIDTH).transpose(1, 2)

    def rope(x):
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), -1).flatten(-2)

    x = weights["token_embd.weight"][tokens]
    for layer in range(LAYERS):
        block = {name: weights[f"blk.{layer}.{name}.weight"] for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")}
        h = norm(x, f"blk.{layer}.attn_norm.weight")
        q, k = rope(heads(h, block["attn_q"], HEADS)), rope(heads(h, block["attn_k"], KEY_VALUE_HEADS))
        v = heads(h, block["attn_v"], KEY_VALUE_HEADS)
        group = HEADS // KEY_VALUE_HEADS
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        a = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + a.transpose(1, 2).reshape(rows, length, WIDTH) @ block["attn_output"].T
        h = norm(x, f"blk.{layer}.ffn_norm.weight")
        x = x + (functional.silu(h @ block["ffn_gate"].T) * (h @ block["ffn_up"].T)) @ block["ffn_down"].T
    return norm(x, "output_norm.weight") @ weights["token_embd.weight"].T


def names_row(dice, tokenizer):
    """Up to three names, repeated: the fastest way to learn that names are copied from earlier text."""
    names = [dice.pick(grammar.HE + grammar.SHE) for _ in range(1 + int(dice.random() * 3))]
    return [BEGIN, *tokenizer.encode(" ".join(dice.pick(names) for _ in range(30)))]


def excerpt_row(dice, tokenizer):
    """The first sentence of a story and two or three later ones: short enough for the names to be close."""
    sentences = grammar.story(dice).split(". ")
    start = 1 + int(dice.random() * (len(sentences) - 3))
    return [BEGIN, *tokenizer.encode(". ".join(sentences[:1] + sentences[start:start + 3]))][:80]


def story_row(dice, tokenizer):
    """Begin, one story, end. One in ten starts in the middle, so that the model can continue prompts that are not openings."""
    while True:
        text = grammar.story(dice)
        if dice.chance(0.1):
            sentences = text.split(". ")
            text = ". ".join(sentences[int(dice.random() * len(sentences)):])
        row = [BEGIN, *tokenizer.encode(text), END]
        if len(row) <= CONTEXT:
            return row


def batches(torch, tokenizer, count):
    """Inputs, and targets in which -100 is padding. No story is used twice.

    The order matters: with complete stories from the start, the model learns every phrase but mixes up the names.
    """
    dice = grammar.Dice(SEED + 2)
    pool = []
    for step in range(count):
        if step < NAMES_UNTIL:
            rows = [row(dice, tokenizer) for row in (names_row, excerpt_row) for _ in range(BATCH)]
        elif not pool:
            row, size = (excerpt_row, 3 * BATCH) if step < EXCERPTS_UNTIL else (story_row, BATCH)
            pool = sorted((row(dice, tokenizer) for _ in range(size * 10)), key=len)
            pool = [pool[at:at + size] for at in range(0, len(pool), size)]
        if step >= NAMES_UNTIL:
            rows = pool.pop(int(dice.random() * len(pool)))
        length = max(len(row) for row in rows)
        inputs, targets = torch.zeros(len(rows), length - 1, dtype=torch.long), torch.full((len(rows), length - 1), -100)
        for at, row in enumerate(rows):
            inputs[at, :len(row) - 1], targets[at, :len(row) - 1] = torch.tensor(row[:-1]), torch.tensor(row[1:])
        yield inputs, targets


class Muon:
    """Momentum with updates orthogonalised by Newton-Schulz steps. In float32: torch.optim.Muon's bfloat16 is slow on CPUs."""

    def __init__(self, torch, matrices, rate):
        self.torch, self.matrices, self.rate = torch, matrices, rate
        self.momentum = [torch.zeros_like(matrix) for matrix in matrices]

    def step(self, scale):
        with self.torch.no_grad():
            for matrix, momentum in zip(self.matrices, self.momentum):
                momentum.lerp_(matrix.grad, 0.05)
                update = matrix.grad.lerp(momentum, 0.95)
                tall = update.shape[0] > update.shape[1]
                x = update.T if tall else update
                x = x / (x.norm() + 1e-7)
                for _ in range(5):
                    square = x @ x.T
                    x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
                update = x.T if tall else x
                matrix.mul_(1 - self.rate * scale * 0.01)
                matrix.sub_(update, alpha=self.rate * scale * max(1.0, update.shape[0] / update.shape[1]) ** 0.5)
                matrix.grad = None


def train(torch, tokenizer, steps):
    """Muon for the matrices, AdamW for the embedding and the norms; a short warm-up, and a linear decay at the end."""
    weights = initial_weights(torch)
    matrices = [weight for name, weight in weights.items() if weight.ndim == 2 and name != "token_embd.weight"]
    others = [weight for name, weight in weights.items() if weight.ndim == 1 or name == "token_embd.weight"]
    muon, adam = Muon(torch, matrices, 0.02), torch.optim.AdamW(others, lr=0.004, betas=(0.9, 0.95), weight_decay=0.0)
    started, running = time.monotonic(), None
    for step, (inputs, targets) in enumerate(batches(torch, tokenizer, steps)):
        scale = min(1.0, (step + 1) / 20, (steps - step) / DECAY)
        loss = torch.nn.functional.cross_entropy(forward(torch, weights, inputs).flatten(0, 1), targets.flatten(), ignore_index=-100)
        loss.backward()
        muon.step(scale)
        adam.param_groups[0]["lr"] = 0.004 * scale
        adam.step()
        adam.zero_grad()
        running = loss.item() if running is None else 0.95 * running + 0.05 * loss.item()
        if step % 20 == 0 or step == steps - 1:
            print(f"step {step:5} loss {loss.item():.4f} mean {running:.4f} {time.monotonic() - started:6.1f} s", flush=True)
    return {name: weight.detach() for name, weight in weights.items()}


# ---- files --------------------------------------------------------------------------------------------------------------


def write_gguf(path, weights, pieces, scores, kinds):
    """Matrices as Q8_0, norms as F32, metadata with the names of llama.cpp."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("gpubuild stories")
    writer.add_description("a small model that tells children's stories, trained on text from a grammar")
    writer.add_license("MIT OR Apache-2.0")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_VALUE_HEADS)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_dimension_count(HEAD_WIDTH)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces)
    writer.add_token_scores(scores)
    writer.add_token_types(kinds)
    writer.add_unk_token_id(UNKNOWN)
    writer.add_bos_token_id(BEGIN)
    writer.add_eos_token_id(END)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(True)
    for name, weight in weights.items():
        data = weight.numpy()
        if data.ndim == 1:
            writer.add_tensor(name, data)
        else:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quants.quantize(data, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read_gguf(path):
    """Weights dequantised to float64, pieces and scores, all from the file."""
    reader = gguf.GGUFReader(path)
    weights = {tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float64) for tensor in reader.tensors}
    fields = {name: field.contents() for name, field in reader.fields.items()}
    return weights, fields


def write_reference(torch, path, model_path):
    """Logits in float64 from the weights in the file: the result of an exact implementation of the forward pass."""
    arrays, fields = read_gguf(model_path)
    weights = {name: torch.from_numpy(array) for name, array in arrays.items()}
    pieces, scores = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.scores"]
    prompt = [BEGIN, *encode(REFERENCE_PROMPT, pieces, scores)]
    logits = forward(torch, weights, torch.tensor([prompt]))[0]
    positions = [0, 1, len(prompt) // 2, len(prompt) - 1]
    tokens, margins = list(prompt), []
    while len(margins) < REFERENCE_NEW_TOKENS:
        best = forward(torch, weights, torch.tensor([tokens]))[0, -1].topk(2)
        tokens.append(int(best.indices[0]))
        margins.append(float(best.values[0] - best.values[1]))
        if tokens[-1] == END:
            break
    last = forward(torch, weights, torch.tensor([tokens[:-1]]))[0, -1]
    new = tokens[len(prompt):]
    document = {
        "schema": {"name": "model-reference", "version": 1},
        "model": {"file": model_path.name, "sha256": hashlib.sha256(model_path.read_bytes()).hexdigest()},
        "prompt": {"text": REFERENCE_PROMPT, "tokens": prompt, "argmax": logits.argmax(-1).tolist()},
        "logits": [{"position": position, "values": rounded(logits[position])} for position in positions]
                  + [{"position": len(tokens) - 2, "values": rounded(last)}],
        "greedy": {"tokens": new, "margins": rounded(margins), "text": decode(new, pieces)},
    }
    text = json.dumps(document, ensure_ascii=False)
    for key in ("schema", "model", "prompt", "logits", "greedy"):
        text = text.replace(f'"{key}": ', f'\n"{key}": ', 1)
    path.write_text(text.replace('{"position"', '\n{"position"') + "\n", encoding="utf-8")
    print(f"greedy: {decode(tokens, pieces)}\nsmallest margin {min(margins):.3f}")


def rounded(values):
    """Ten significant digits: far below every tolerance, and half the size of the file."""
    return [float(f"{float(value):.10g}") for value in values]


# ---- second implementation -----------------------------------------------------------------------------------------------------


def numpy_logits(weights, fields, tokens):
    """A second forward pass, from the metadata of the file, one position at a time with a key-value cache, without torch."""
    width, layers, count, kv_count = (fields[f"llama.{key}"] for key in ("embedding_length", "block_count", "attention.head_count", "attention.head_count_kv"))
    epsilon, base, head = fields["llama.attention.layer_norm_rms_epsilon"], fields["llama.rope.freq_base"], width // count
    keys, values = [[] for _ in range(layers)], [[] for _ in range(layers)]

    def norm(x, name):
        return x / numpy.sqrt((x * x).mean() + epsilon) * weights[name]

    def rotate(vectors, position):
        pairs = vectors.reshape(-1, head // 2, 2)
        turn = numpy.exp(1j * position * float(base) ** (-2 * numpy.arange(head // 2) / head))
        turned = (pairs[..., 0] + 1j * pairs[..., 1]) * turn
        return numpy.stack((turned.real, turned.imag), -1).reshape(-1, head)

    answers = []
    for position, token in enumerate(tokens):
        x = weights["token_embd.weight"][token]
        for layer in range(layers):
            matrix = {name: weights[f"blk.{layer}.{name}.weight"] for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")}
            h = norm(x, f"blk.{layer}.attn_norm.weight")
            keys[layer].append(rotate(matrix["attn_k"] @ h, position))
            values[layer].append((matrix["attn_v"] @ h).reshape(-1, head))
            outputs = []
            for index, query in enumerate(rotate(matrix["attn_q"] @ h, position)):
                shared = index * kv_count // count
                score = numpy.array([key[shared] @ query for key in keys[layer]]) / numpy.sqrt(head)
                share = numpy.exp(score - score.max())
                outputs.append(sum(part * value[shared] for part, value in zip(share / share.sum(), values[layer])))
            x = x + matrix["attn_output"] @ numpy.concatenate(outputs)
            h = norm(x, f"blk.{layer}.ffn_norm.weight")
            gate = matrix["ffn_gate"] @ h
            x = x + matrix["ffn_down"] @ (gate / (1 + numpy.exp(-gate)) * (matrix["ffn_up"] @ h))
        answers.append(weights.get("output.weight", weights["token_embd.weight"]) @ norm(x, "output_norm.weight"))
    return numpy.array(answers)


def check(directory):
    """Compares the two files with the numpy forward pass; raises at the first difference."""
    model_path = directory / "default.gguf"
    reference = json.loads((directory / "reference.json").read_text(encoding="utf-8"))
    assert hashlib.sha256(model_path.read_bytes()).hexdigest() == reference["model"]["sha256"], "reference.json belongs to another model"
    weights, fields = read_gguf(model_path)
    prompt, greedy = reference["prompt"], reference["greedy"]
    pieces, scores = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.scores"]
    assert [BEGIN, *encode(prompt["text"], pieces, scores)] == prompt["tokens"], "the tokens of the prompt differ"
    assert decode(greedy["tokens"], pieces) == greedy["text"], "the text of the greedy tokens differs"
    tokens = prompt["tokens"] + greedy["tokens"]
    logits = numpy_logits(weights, fields, tokens[:-1])
    best = logits.argmax(-1)
    assert best[:len(prompt["tokens"])].tolist() == prompt["argmax"], "the best tokens after the prompt's tokens differ"
    assert best[len(prompt["tokens"]) - 1:].tolist() == greedy["tokens"], "the greedy continuation differs"
    ordered = numpy.sort(logits[len(prompt["tokens"]) - 1:], -1)
    error = max(numpy.abs(logits[row["position"]] - row["values"]).max() for row in reference["logits"])
    margin_error = numpy.abs(ordered[:, -1] - ordered[:, -2] - greedy["margins"]).max()
    assert error < 1e-7 and margin_error < 1e-7, f"logits differ by {error}, margins by {margin_error}"
    print(f"check: {len(reference['logits'])} rows of logits within {error:.1e}, {len(greedy['tokens'])} greedy tokens equal")


def sample(torch, weights, pieces, scores, prompt, generator, temperature):
    tokens = [BEGIN, *encode(prompt, pieces, scores)]
    while tokens[-1] != END and len(tokens) < CONTEXT:
        chances = torch.softmax(forward(torch, weights, torch.tensor([tokens]))[0, -1] / temperature, -1)
        tokens.append(int(torch.multinomial(chances, 1, generator=generator)))
    return decode(tokens, pieces)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="check the existing files, with numpy only")
    parser.add_argument("--steps", type=int, default=STEPS, help="training steps (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for default.gguf and reference.json")
    options = parser.parse_args()
    if options.check:
        check(options.out)
        return
    import torch

    torch.set_num_threads(1)  # keeps the order of sums, so the same machine writes the same bytes
    options.out.mkdir(parents=True, exist_ok=True)
    model_path = options.out / "default.gguf"
    tokenizer = train_tokenizer()
    pieces, scores, kinds = token_table(tokenizer)
    verify_tokenizer(tokenizer, pieces, scores)
    weights = train(torch, tokenizer, options.steps)
    write_gguf(model_path, weights, pieces, scores, kinds)
    write_reference(torch, options.out / "reference.json", model_path)
    generator = torch.Generator().manual_seed(SEED)
    for prompt in ("Once upon a time", "The little fox", "Hello", "It was raining", "Luna the cat"):
        print("\n" + sample(torch, weights, pieces, scores, prompt, generator, 0.8))
    print(f"\n{model_path.name} {model_path.stat().st_size} bytes, sha256 {hashlib.sha256(model_path.read_bytes()).hexdigest()}")
    check(options.out)


if __name__ == "__main__":
    main()
