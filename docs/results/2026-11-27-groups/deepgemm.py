"""DeepGEMM's contiguous products of groups of e4m3, timed as levers.cu times baton's: deepgemm.py FOLDER..., where sgl-deep-gemm and apache-tvm-ffi are unpacked."""
import os, sys, time, statistics
os.environ['DG_PRINT_CONFIGS']='1'
sys.path[:0] = sys.argv[1:]
import torch, deep_gemm
print(torch.__version__, torch.cuda.get_device_name(), getattr(deep_gemm,'__version__',''), flush=True)
torch.manual_seed(0)
def burst(f):
    f(); torch.cuda.synchronize(); time.sleep(.12)
    def mean(n):
        a,b=(torch.cuda.Event(enable_timing=True) for _ in range(2)); torch.cuda._sleep(2000000); a.record()
        for _ in range(n): f()
        b.record(); b.synchronize(); return a.elapsed_time(b)*1000/n
    once=mean(2); return mean(max(3,min(200,int(15000/once))))
def case(groups, rows, n, k):
    m=groups*rows
    a=(torch.randn(m,k,device='cuda')*40).to(torch.float8_e4m3fn); b=torch.empty(groups,n,k,device='cuda',dtype=torch.float8_e4m3fn)
    for g in range(groups): b[g]=(torch.randn(n,k,device='cuda')*40).to(torch.float8_e4m3fn)
    sa=torch.rand(k//128,m,device='cuda').add_(.5).mul_(.001).t(); sb=torch.rand(groups,n//128,k//128,device='cuda').add_(.5).mul_(.001)
    d=torch.empty(m,n,device='cuda',dtype=torch.bfloat16)
    ids=torch.arange(groups,device='cuda',dtype=torch.int32).repeat_interleave(rows)
    f=lambda: deep_gemm.m_grouped_fp8_gemm_nt_contiguous((a,sa),(b,sb),d,ids)
    f(); torch.cuda.synchronize()
    # check one row
    for r in (5, m-3):
        g=int(ids[r]); x=a[r].float().view(-1,128)*sa[r].unsqueeze(1); w=b[g].float().view(n//128,128,k//128,128)*sb[g][:,None,:,None]
        want=w.reshape(n,k)@x.reshape(k); err=((d[r].float()-want).abs().max()/want.abs().max()).item(); print('  err',err)
    t=[burst(f) for _ in range(3)]; us=statistics.median(t)
    print(f'DeepGEMM {groups}x{rows} n {n} k {k}: {us:.1f} us ({min(t):.1f} to {max(t):.1f}) {2*m*n*k/us/1e6:.1f} TFLOP/s', flush=True)
for rows in (512,128):
    for n,k in ((4096,7168),(7168,2048)): case(64,rows,n,k)
