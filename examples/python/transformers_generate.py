"""A mixture-of-experts model of transformers, its experts spread over processes:

    torchrun --nproc-per-node 2 transformers_generate.py FOLDER PROMPT [cuda]

FOLDER is a checkpoint in safetensors with its config.json; without a tokenizer there, tokens are bytes, as data/tiny-moe has them. Every rank
continues the same prompt, and reads its own experts alone.
"""
import pathlib
import sys

import torch
import transformers

import baton
import baton.transformers

if len(sys.argv) < 3:
    sys.exit(__doc__)
folder, prompt, device = pathlib.Path(sys.argv[1]), sys.argv[2], (sys.argv[3] if len(sys.argv) > 3 else "cpu")
world = baton.World.from_env(device)
model = baton.transformers.from_pretrained(folder, world, num_max_tokens_per_rank=512)
has_tokenizer = (folder / "tokenizer.json").exists()
tokenizer = transformers.AutoTokenizer.from_pretrained(folder) if has_tokenizer else None
ids = tokenizer(prompt, return_tensors="pt").input_ids if has_tokenizer else torch.tensor([list(prompt.encode())])
ids = ids.to(model.device)
with torch.no_grad():
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False, pad_token_id=0)[0, ids.shape[1]:]
text = tokenizer.decode(out) if has_tokenizer else bytes(out.tolist()).decode(errors="replace")
print(f"rank {world.rank} of {world.size}: {text!r}")
