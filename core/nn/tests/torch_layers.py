"""Writes torch_layers.safetensors: parameters, inputs, results and gradients of PyTorch's layers.

python core/nn/tests/torch_layers.py   (PyTorch 2, safetensors)
The gradient of each case is that of the sum of the results times `ct`.
"""

import copy
import os

import torch
from torch import nn
from safetensors.torch import save_file

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
out = {}


def case(name, module, inputs, call=None, train=False):
    module = copy.deepcopy(module)
    module.zero_grad()
    module.train(train)
    inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    for key, value in module.state_dict().items():
        out[f"{name}/module/{key}"] = value.clone()
    results = (call or (lambda m, *xs: m(*xs)))(module, *inputs)
    results = results if isinstance(results, tuple) else (results,)
    cts = [torch.randn_like(y) for y in results]
    sum((y * ct).sum() for y, ct in zip(results, cts)).backward()
    for i, x in enumerate(inputs):
        out[f"{name}/input/{i}"] = x.detach()
        if x.grad is not None:
            out[f"{name}/input_grad/{i}"] = x.grad
    for i, (y, ct) in enumerate(zip(results, cts)):
        out[f"{name}/output/{i}"] = y.detach()
        out[f"{name}/ct/{i}"] = ct
    for key, value in module.named_parameters():
        out[f"{name}/grad/{key}"] = value.grad
    for key, value in module.named_buffers():
        out[f"{name}/after/{key}"] = value.clone()


x = torch.randn
case("linear", nn.Linear(3, 4), [x(2, 5, 3)])
case("conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), [x(2, 4, 9)])
case("conv2d", nn.Conv2d(3, 4, 3, padding=1, dilation=2), [x(2, 3, 7, 6)])
case("conv3d", nn.Conv3d(2, 3, 2), [x(1, 2, 4, 3, 5)])
case("conv_transpose2d", nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, groups=2), [x(2, 4, 5, 4)])
case("layer_norm", nn.LayerNorm(6, eps=1e-5), [x(2, 3, 6)])
case("rms_norm", nn.RMSNorm(6, eps=1e-6), [x(2, 3, 6)])
case("group_norm", nn.GroupNorm(2, 4), [x(2, 4, 3, 3)])
case("batch_norm_train", nn.BatchNorm2d(3, momentum=0.1), [x(4, 3, 2, 2)], train=True)
norm = nn.BatchNorm1d(3)
norm.running_mean += x(3)
norm.running_var *= torch.rand(3) + 0.5
case("batch_norm", norm, [x(4, 3)])
case("lstm", nn.LSTM(3, 5), [x(7, 2, 3), x(1, 2, 5), x(1, 2, 5)],
     lambda m, xs, h, c: (lambda r: (r[0], r[1][0], r[1][1]))(m(xs, (h, c))))
case("gru", nn.GRU(3, 5), [x(7, 2, 3), x(1, 2, 5)])
attention = nn.MultiheadAttention(8, 2, batch_first=True)
nn.init.normal_(attention.in_proj_bias)
nn.init.normal_(attention.out_proj.bias)
case("attention", attention, [x(2, 5, 8)], lambda m, x: m(x, x, x, need_weights=False)[0])
mask = torch.ones(5, 5, dtype=torch.bool).triu(1)
case("attention_before", attention, [x(2, 5, 8)],
     lambda m, x: m(x, x, x, need_weights=False, attn_mask=mask, is_causal=True)[0])
case("attention_to", attention, [x(2, 5, 8), x(2, 7, 8)],
     lambda m, x, y: m(x, y, y, need_weights=False)[0])
for first in (False, True):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", batch_first=True, norm_first=first)
    case(f"encoder_{'before' if first else 'after'}", layer, [x(2, 5, 8)], train=True)
layer = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
case("decoder", layer, [x(2, 5, 8), x(2, 7, 8)],
     lambda m, x, y: m(x, y, tgt_mask=mask, tgt_is_causal=True), train=True)

here = os.path.dirname(os.path.abspath(__file__))
save_file({k: v.clone().contiguous() for k, v in out.items()}, os.path.join(here, "torch_layers.safetensors"),
          metadata={"source": f"PyTorch {torch.__version__}"})
