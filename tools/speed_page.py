#!/usr/bin/env python3
"""How fast baton is beside others, from docs/results: speed_page.py [--check PAGE | --write PAGE].

Without an option the page is printed. --check fails where the page is not what the results say. A cell names a file and the case in it; figures of
other libraries that did not run beside baton stand here, with what was measured and when.
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = "docs/results"
FOUR_H200, ON_H200, FOUR, PEERS = "2026-11-28-four-h200", "2026-11-28-h200", "2026-11-26-four-gpus", "2026-11-27-peers"

# GPUs, tokens a GPU, file of lines or chunks, its case beside the tokens, file by flags, DeepEP (us), aim, aim by flags
EXCHANGE = [
    (2, 1, f"{ON_H200}/lines-2", {}, f"{ON_H200}/flags-2", "", 5.5, 7.5),
    (2, 32, f"{ON_H200}/lines-2", {}, f"{ON_H200}/flags-2", "", 8, 10.5),
    (2, 128, f"{ON_H200}/lines-2", {}, f"{ON_H200}/flags-2", "", 14, 17),
    (2, 512, f"{ON_H200}/many-2", {}, None, "", 40, None),
    (2, 1024, f"{ON_H200}/many-2", {}, None, "", 75, None),
    (2, 4096, f"{ON_H200}/many-2", {}, None, "", None, None),
    (2, 4096, f"{ON_H200}/sms-2", {"num_sms": 24}, None, "", 268, None),
    (4, 1, f"{FOUR_H200}/lines-4", {}, f"{FOUR_H200}/flags-4", "", 8, 10),
    (4, 32, f"{FOUR_H200}/lines-4", {}, f"{FOUR_H200}/flags-4", "", 12.5, 15),
    (4, 128, f"{FOUR_H200}/lines-4", {}, f"{FOUR_H200}/flags-4", "low latency 91.5", 29, 32),
    (4, 1024, f"{FOUR_H200}/many-4", {}, None, "293", 190, None),
    (4, 4096, f"{FOUR_H200}/many-4", {}, None, "819", None, None),
    (4, 4096, f"{FOUR_H200}/sms-4", {"num_sms": 24}, None, "905", 720, None),
]
# format, m = n = k, aim against cuBLAS
DENSE = [("bf16", 8192, 1.02), ("bf16", 4096, 1.0), ("bf16", 2048, 0.98), ("bf16", 1024, 0.95), ("e4m3", 8192, 1.05), ("e4m3", 4096, None), ("e4m3", 2048, None),
         ("e4m3", 1024, None)]
DENSE_FILE = "2026-11-23-gemm/dense"
# format, product, rows of 64 groups, DeepGEMM (TFLOP/s), aim
GROUPS = [("bf16", "gate_up", 32768, 762, 780), ("bf16", "down", 32768, 751, 770), ("e4m3", "gate_up", 32768, 1342, 1400), ("e4m3", "down", 32768, 1269, 1320),
          ("e4m3", "gate_up", 8192, 836, 880), ("e4m3", "down", 8192, 828, 860)]
GROUPS_FILE = f"{FOUR}/groups"
# head dimension, length, mask, others (TFLOP/s), aim
ATTENTION_FILE = "2026-11-27-attention-beginnings/now"
ATTENTION = [(512, 2048, "causal", "", 620), (512, 4096, "causal", "", 710), (512, 4096, "dense", "", 740),
             (512, 8192, "causal", "an open patch of FlashAttention 3: 497", 755), (512, 8192, "dense", "the same: 457", 775),
             (512, 16384, "causal", "the same: 506", 790), (512, 16384, "dense", "the same: 451", 770),
             (256, 8192, "causal", "FlashAttention 3 787, cuDNN 677", None), (256, 8192, "dense", "FlashAttention 3 804, cuDNN 751", None),
             (256, 16384, "causal", "FlashAttention 3 815, cuDNN 719", 830), (256, 16384, "dense", "FlashAttention 3 796, cuDNN 761", 815)]
# file, sequences, keys, others (us), aim: both of an H200
OF_H200, MANY_OF_H200, OF_H100 = "2026-11-29-decode-walk/decode", "2026-11-29-e4m3-caches/cases", "2026-11-27-attention-beginnings/few_rows"
DECODE = [(OF_H200, 1, 1024, 18.7, 9), (OF_H200, 1, 8192, 39.6, 22), (OF_H200, 1, 32768, 92.7, 70), (MANY_OF_H200, 8, 8192, 140, 130), (MANY_OF_H200, 128, 8192, 1932, 1952),
          (OF_H100, 1, 1024, None, None), (OF_H100, 1, 8192, None, None), (OF_H100, 1, 32768, None, None)]
# heads of q and of k, head dimension, sequences, keys
E4M3 = [(32, 4, 512, 1, 8192), (32, 4, 512, 1, 32768), (32, 4, 512, 1, 262144), (32, 4, 512, 8, 32768), (32, 4, 512, 128, 8192), (16, 2, 256, 64, 8192)]
E4M3_AIM = 1.8

# GPUs, tokens a GPU, what DeepEP itself takes (us)
LOW_LATENCY = [(2, 1, ""), (2, 32, ""), (2, 128, ""), (4, 1, ""), (4, 32, ""), (4, 128, "91.5")]
LOW_LATENCY_FILE = "2026-11-27-low-latency/rounds"

HEAD = """# How fast it is

Figures of [docs/results](results/README.md), where each run has its commands, spreads and files; this page is made of them by `python3 tools/speed_page.py --write docs/how_fast.md`, and a test compares it. Every value was compared before it was timed. What cuBLAS, NCCL and
limits say is of the same run. Other libraries' figures are, unless it says otherwise, of H200 of the same driver in November 2026, not of the same run; what they do is said below. What was aimed at and is missed is bold.
"""
EXCHANGE_HEAD = """
## A round of the exchange

Hidden 7168, top-8 of 256 experts, uniform routing, FP8 out and bf16 back, in a graph, us, the slowest rank: cast, rows found, router weights applied, sums of all experts as bf16 tokens. Up to 128 tokens rows are in the order of experts, from 512 on tokens lie once and experts read them
through a list. NCCL: its two all-to-alls for the same tokens, which neither cast nor find rows nor weigh. Limit: the bytes at the push bandwidth and the floor of launch and flags, both of the same run. FlashInfer (0.7.2.post1, one-sided), and in brackets baton,
on 4 x H100 within the same half hour ([results](results/2026-11-27-peers/README.md)): it is given tokens in FP8, orders no rows, and sums no experts of a rank; DeepEP (567632d, H200) at 1,024 and 4,096 tokens is dispatch and combine of cached handles, each alone.

| GPUs | tokens a GPU | SMs | us (p99) | aim | with released flags | aim | NCCL | limit | machine | FlashInfer (baton) | DeepEP |
|---|---|---|---|---|---|---|---|---|---|---|---|
"""
LOW_LATENCY_HEAD = """
The same from Python through DeepEP's interface of low latency (`baton.deep_ep`), replayed from a graph, us: weights are given to combine, and each expert has rows of its own. DeepEP: its own kernels for the same tokens.

| GPUs | tokens a GPU | FP8 out | bf16 out | DeepEP | machine |
|---|---|---|---|---|---|
"""
DENSE_HEAD = """
## Dense products

`A * B^T`, m = n = k, bf16 with bf16 out, e4m3 with scales of 1x128 and 128x128 (cuBLASLt's have the same), TFLOP/s in bursts.

| format | size | baton | cuBLAS | ratio | aim | machine |
|---|---|---|---|---|---|---|
"""
GROUPS_HEAD = """
## Products of groups

64 experts of DeepSeek-V3 (gate and up: n 4096, k 7168; down: n 7168, k 2048), uniform, rows of the device's own counts, TFLOP/s in bursts. DeepGEMM (54e2261, contiguous) on H200, whose memory is 1.4 times as fast as that of the H100 baton ran on.
e4m3 has another inner loop and other stores since: in one call on one H100 they and DeepGEMM (sgl-deep-gemm 0.1.0) reached 1,303 and 1,255 (gate and up), 1,214 and 1,200 (down) with 512 rows, 697 and 616, 644 and 601 with 128
([results](results/2026-11-27-groups/README.md)).

| format | product | rows a group | baton | of the roofline | DeepGEMM | aim | machine |
|---|---|---|---|---|---|---|---|
"""
ATTENTION_HEAD = """
## Attention of wide heads

16 heads, bf16, one sequence, TFLOP/s in bursts, causal counted as half.

| head dimension | keys | mask | baton | of cuBLAS at 8192 | others | aim | machine |
|---|---|---|---|---|---|---|---|
"""
DECODE_HEAD = """
One query a sequence, head dimension 512, 32 heads on 4 of K and V, pages of 16, caches in turn so that none is in the L2, us. Other: the same patch of FlashAttention 3, without pages. An H200's memory is 1.4 times as fast as an H100's.

| sequences | keys | baton | of a copy's bandwidth | other | aim | machine |
|---|---|---|---|---|---|---|
"""
E4M3_HEAD = """
The same over caches of e4m3, beside those of bf16 in the same run, us; 1.8 times as fast is asked for on long caches.

| heads | sequences | keys | bf16 | e4m3 | times as fast | machine |
|---|---|---|---|---|---|---|
"""


def cases(root, name):
    return [json.loads(line) for line in (root / RESULTS / f"{name}.jsonl").read_text().splitlines()]


def the_case(root, name, **wanted):
    found = [case for case in cases(root, name) if all(case.get("axes", case).get(key) == value for key, value in wanted.items())]
    if not found:
        raise SystemExit(f"{RESULTS}/{name}.jsonl: has no case with {wanted}")
    return found[0]


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}" if value >= 10 else f"{value:.2f}"


def machine(case):
    return case["gpu"].replace(" 80GB HBM3", "").replace("NVIDIA ", "")


def told(name, text):
    """With a link to the run."""
    return f"[{text}](results/{name.split('/')[0]}/README.md)"


def beside_aim(text, misses):
    return f"**{text}**" if misses else text


def aim_text(aim):
    return "-" if aim is None else f"{aim:g}"


def flashinfer(root, gpus, tokens, num_sms):
    """Its median, and baton's of the same sizes and kind of machine; with fewer SMs it was not measured."""
    if num_sms:
        return "-"
    own = the_case(root, f"{PEERS}/baton", ranks=gpus, tokens=tokens)["fused"]["round_trip_graph"]["median_us"]
    return f"{number(the_case(root, f'{PEERS}/flashinfer', ranks=gpus, tokens=tokens)['in_place']['median_us'])} ({number(own)})"


def exchange_rows(root):
    for gpus, tokens, name, where, flags_name, others, aim, flags_aim in EXCHANGE:
        where = {"num_sms": 0, **where}
        case = the_case(root, name, ranks=gpus, tokens=tokens, **where)
        now, p99 = (case["fused"]["round_trip_graph"][key] for key in ("median_us", "p99_us"))
        flags = "-"
        if flags_name:
            by_flags = the_case(root, flags_name, ranks=gpus, tokens=tokens)["fused"]["round_trip_graph"]["median_us"]
            flags = beside_aim(told(flags_name, number(by_flags)), by_flags > flags_aim)
        nccl = sum(case["nccl"][way]["median_us"] for way in ("all_to_all_of_dispatch", "all_to_all_of_combine")) if case["nccl"] else None
        yield (gpus, f"{tokens:,}", where["num_sms"] or "all", beside_aim(told(name, f"{number(now)} ({number(p99)})"), aim is not None and now > aim), aim_text(aim),
               flags, aim_text(flags_aim), "-" if nccl is None else number(nccl), number(case["limits"]["limit_us"]), machine(case), flashinfer(root, gpus, tokens, where["num_sms"]), others or "-")


def low_latency_rows(root):
    for gpus, tokens, other in LOW_LATENCY:
        name = f"{LOW_LATENCY_FILE}-{gpus}"
        fp8, bf16 = (the_case(root, name, way=f"deep_ep, {form}", tokens=tokens) for form in ("fp8", "bf16"))
        yield (gpus, tokens, told(name, number(fp8["us_in_a_graph"])), number(bf16["us_in_a_graph"]), other or "-", f"{gpus} x {fp8['on'].replace('NVIDIA ', '')}")


def dense_rows(root):
    for form, size, aim in DENSE:
        own = the_case(root, DENSE_FILE, who="automatic", format=form, m=size, n=size, k=size)
        other = the_case(root, DENSE_FILE, who="cublas" if form == "bf16" else "cublaslt", format=form, m=size, n=size, k=size)
        ratio = own["burst_tflops"] / other["burst_tflops"]
        yield (form, size, told(DENSE_FILE, number(own["burst_tflops"])), number(other["burst_tflops"]), beside_aim(f"{ratio:.3f}", aim is not None and round(ratio, 3) < aim),
               aim_text(aim), machine(own))


def group_rows(root):
    for form, product, rows, other, aim in GROUPS:
        case = the_case(root, GROUPS_FILE, format=form, product=product, rows=rows, routing="uniform")
        rate = case["burst_tflops"]
        yield (form, product.replace("_", " and "), rows // 64, beside_aim(told(GROUPS_FILE, number(rate)), rate < aim), f"{case['least_us'] / case['burst_median_us']:.0%}", other, aim,
               machine(case))


def attention_rows(root):
    for dim, length, mask, others, aim in ATTENTION:
        case = the_case(root, ATTENTION_FILE, head_dim=dim, length=length, mask=mask)
        rate = case["burst_tflops"]
        yield (dim, f"{length:,}", mask, beside_aim(told(ATTENTION_FILE, number(rate)), aim is not None and rate < aim), f"{case['of_cublas']:.0%}", others or "-", aim_text(aim), machine(case))


def decode_rows(root):
    for name, sequences, keys, other, aim in DECODE:
        case = the_case(root, name, head_dim=512, heads=32, kv_heads=4, batch=sequences, keys=keys, rows=1, page_size=16, format="bf16")
        time = case["burst_median_us"]
        yield (sequences, f"{keys:,}", beside_aim(told(name, number(time)), aim is not None and time > aim), f"{case['of_copy']:.0%}", "-" if other is None else number(other),
               "-" if aim is None else number(aim), machine(case))


def e4m3_rows(root):
    for heads, kv_heads, head_dim, sequences, keys in E4M3:
        bf16, e4m3 = (the_case(root, MANY_OF_H200, head_dim=head_dim, heads=heads, kv_heads=kv_heads, batch=sequences, keys=keys, rows=1, page_size=16, cache_format=cache)
                      for cache in ("bf16", "e4m3"))
        times = bf16["burst_median_us"] / e4m3["burst_median_us"]
        yield (f"{heads}/{kv_heads} of {head_dim}", sequences, f"{keys:,}", number(bf16["burst_median_us"]), told(MANY_OF_H200, number(e4m3["burst_median_us"])),
               beside_aim(f"{times:.2f}", times < E4M3_AIM), machine(e4m3))


def table(rows):
    return "".join("| " + " | ".join(str(cell) for cell in row) + " |\n" for row in rows)


def page(root=ROOT):
    return (HEAD + EXCHANGE_HEAD + table(exchange_rows(root)) + LOW_LATENCY_HEAD + table(low_latency_rows(root)) + DENSE_HEAD + table(dense_rows(root)) + GROUPS_HEAD + table(group_rows(root)) + ATTENTION_HEAD +
            table(attention_rows(root)) + DECODE_HEAD + table(decode_rows(root)) + E4M3_HEAD + table(e4m3_rows(root)))


def complaints(root, text):
    """Lines of a page that the results do not say, and the other way round."""
    expected = page(root).splitlines()
    found = text.splitlines()
    yield from (f"the page has what the results do not say: {line}" for line in found if line not in expected)
    yield from (f"the page lacks: {line}" for line in expected if line not in found)


def main(arguments):
    if not arguments:
        print(page(), end="")
        return 0
    if len(arguments) != 2 or arguments[0] not in ("--check", "--write"):
        print(__doc__, file=sys.stderr)
        return 2
    path = pathlib.Path(arguments[1])
    if arguments[0] == "--write":
        path.write_text(page())
        return 0
    wrong = list(complaints(ROOT, path.read_text()))
    print("\n".join(wrong) or "speed: the page says what was measured")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
