"""DeepGEMM's contiguous products of 64 groups of 512 rows: bursts, and 500 ms behind each other as levers.cu's: deepgemm_sustained.py."""
import time, statistics
import torch, deep_gemm
torch.manual_seed(0); G, R = 64, 512
def mean(f, n):
    a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2)); a.record()
    for _ in range(n): f()
    b.record(); b.synchronize(); return a.elapsed_time(b) * 1000 / n
for n, k in ((4096, 7168), (7168, 2048)):
    m = G * R
    def values(*s): return ((torch.rand(*s, 4, device='cuda').sum(-1) - 2) * 68).to(torch.float8_e4m3fn)
    a = torch.cat([values(R, k) for _ in range(G)]); b = torch.empty(G, n, k, device='cuda', dtype=torch.float8_e4m3fn)
    for g in range(G): b[g] = torch.cat([values(n // 4, k) for _ in range(4)])
    sa = torch.rand(k // 128, m, device='cuda').add_(.5).mul_(.001).t(); sb = torch.rand(G, n // 128, k // 128, device='cuda').add_(.5).mul_(.001)
    d = torch.empty(m, n, device='cuda', dtype=torch.bfloat16); ids = torch.arange(G, device='cuda', dtype=torch.int32).repeat_interleave(R)
    f = lambda: deep_gemm.m_grouped_fp8_gemm_nt_contiguous((a, sa), (b, sb), d, ids)
    f(); torch.cuda.synchronize(); bursts = []
    for _ in range(3):
        f(); torch.cuda.synchronize(); time.sleep(.12); bursts.append(mean(f, max(3, min(200, int(15000 / mean(f, 2))))))
    us = statistics.median(bursts); batch = max(1, int(20000 / us)); held = []
    for _ in range(2):
        for stretch in range(2):
            t = []
            while sum(t) * batch < 500000: t.append(mean(f, batch))
        held.append(statistics.fmean(t))
    flop = 2.0 * m * n * k
    print(f'DeepGEMM n {n} k {k}: burst {us:.1f} us {flop/us/1e6:.1f} TFLOP/s; SUSTAINED ' + ', '.join(f'{h:.1f} us {flop/h/1e6:.1f}' for h in held), flush=True)
