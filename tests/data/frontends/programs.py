#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Import small models by docs/examples/import_*.py, with the numbers that their frameworks get.

    programs.py torch|torch_xla|tensorflow|onnx DIRECTORY

The packages are those of docs/frontends.md.  It writes for each model a directory with

    programs/ buffers/ executables/    what the script wrote, for a mount
    run                                the line that it prints
    expected/                          the results, computed by the framework itself

No path of the machine gets into them.  All together:

    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=2024-02-29 -c */ | xz -9e >programs.tar.xz
"""
import copy
import json
import os
import pathlib
import re
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "docs/examples"))
rng = np.random.default_rng(1)


def keep(directory, line, results):
    """The line's results go to a directory, so that no case meets those of another."""
    inputs, outputs = line.split(" -> ")
    (directory / "run").write_text(f"{inputs} -> {' '.join(f'got/{name}' for name in outputs.split())}\n")
    (directory / "expected").mkdir()
    for name, result in zip(outputs.split(), results, strict=True):
        np.save(directory / f"expected/{name}.npy", np.asarray(result))


def train(module, x, t):
    """The loss of the last of ten steps of PyTorch's own gradient descent."""
    import torch
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        loss = ((module(x) - t) ** 2).mean()
        loss.backward()
        optimizer.step()
    return loss.detach().numpy()


def of_torch(out):
    import import_jax
    import import_torch
    import import_torch_xla
    import jax
    import torch
    import torchax
    from torch import nn
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*")
    jax.config.update("jax_traceback_in_locations_limit", 0)
    torch.manual_seed(1)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(8)
            self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
            self.register_buffer("position", torch.randn(5, 8), persistent=False)

        def forward(self, x):
            y = self.norm(x + self.position)
            return x + self.attend(y, y, y, need_weights=False)[0]

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(12))
            self.head = nn.Linear(8, 11, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            y = self.embed(ids)
            for layer in self.layers:
                y = torch.tanh(layer(y))
            return self.head(y)

    class Lstm(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = nn.LSTM(6, 7, 2, batch_first=True)

        def forward(self, x):
            y, (h, c) = self.steps(x)
            return y, h, c

    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)).bfloat16()

        def forward(self, x):
            return self.net(x).float()

    def net():
        return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))

    convolution = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))
    convolution[1].running_mean.normal_()
    convolution[1].running_var.uniform_(0.5, 2)
    for name, module, x in (
            ("convolution", convolution, torch.randn(2, 1, 6, 6)), ("attention", Attention(), torch.randn(2, 5, 8)),
            ("tied", Tied(), torch.randint(11, (2, 3))), ("lstm", Lstm(), torch.randn(2, 4, 6)),
            ("half", Half(), torch.randn(4, 6).bfloat16())):
        module.eval()
        with torch.no_grad():
            want = module(x)
        line = import_torch.export(out / name, name, module, x=x)
        keep(out / name, line, [one.numpy() for one in (want if isinstance(want, tuple) else (want,))])

    # Ten steps of a training: by JAX's gradient here, by PyTorch's own there.
    module, x, t = net(), torch.randn(16, 8), torch.randn(16, 8)
    weights, call = torchax.extract_jax(module)

    def step(w, x, t):
        loss, gradient = jax.value_and_grad(lambda w: ((call(w, (x,)) - t) ** 2).mean())(w)
        return jax.tree.map(lambda w, g: w - 0.1 * g, w, gradient), loss

    import_jax.export(out / "training", "training", step, w=weights, x=x.numpy(), t=t.numpy())
    keep(out / "training", "w x t -> loss", [train(module, x, t)])
    (out / "training/run").write_text("w x t -> w/ got/loss repeat=10\n")

    # The same shapes twice, and torch_xla's order is the other way round.
    os.environ["PJRT_DEVICE"] = "CPU"
    from torch_xla.stablehlo import exported_program_to_stablehlo
    module, x = net().eval(), torch.randn(2, 8)
    exported_program_to_stablehlo(torch.export.export(module, (x,))).save(out / "saved")
    line = import_torch_xla.export(out / "saved", "backwards", out / "backwards")
    np.save(out / "backwards/buffers/x.npy", x.numpy())
    keep(out / "backwards", line, [module(x).detach().numpy()])


def of_torch_xla(out):
    """Ten steps of a training, traced as it runs, after which only torch_xla knows which input of the program a tensor is."""
    os.environ["PJRT_DEVICE"] = "CPU"
    import torch
    import torch_xla
    import torch_xla.core.xla_model as xm
    from torch import nn
    torch.manual_seed(2)
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    x, t = torch.randn(16, 8), torch.randn(16, 8)
    on_device = copy.deepcopy(module).to(torch_xla.device())
    known = {name: one.to(torch_xla.device()) for name, one in (("x", x), ("t", t))}
    torch_xla.sync()
    parameters = dict(on_device.named_parameters())
    known |= {f"lazy/{name}": one for name, one in parameters.items()}
    loss = ((on_device(known["x"]) - known["t"]) ** 2).mean()
    loss.backward()
    results = [loss.detach(), *(one - 0.1 * one.grad for one in parameters.values())]
    text = xm.get_stablehlo(results)
    names = {torch_xla._XLAC._xla_get_tensor_id(one): name for name, one in known.items()}
    inputs = []
    for i, (number, array) in enumerate(zip(*torch_xla._XLAC._get_tensors_xla_device_data_node(results))):
        inputs.append(names.get(number, f"lazy/constant{i}"))
        file = out / f"lazy/buffers/{inputs[-1]}.npy"
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, array.detach().cpu().numpy())
    for file, content in (("programs/lazy.mlir", text), ("executables/lazy/options.json", json.dumps({"input_names": inputs}))):
        (out / "lazy" / file).parent.mkdir(parents=True)
        (out / "lazy" / file).write_text(content)
    keep(out / "lazy", "lazy x t -> y", [train(module, x, t)])
    (out / "lazy/run").write_text(f"lazy x t -> got/y {' '.join(f'lazy/{name}' for name in parameters)} repeat=10\n")


def of_tensorflow(out):
    import import_tensorflow
    import keras
    import tensorflow
    keras.utils.set_random_seed(1)
    net = keras.Sequential([keras.Input((6, 6, 1)), keras.layers.Conv2D(4, 3, activation="relu"),
                            keras.layers.BatchNormalization(), keras.layers.Flatten(), keras.layers.Dense(5), keras.layers.Dense(5)])
    for weight in net.weights:
        weight.assign(rng.uniform(0.1, 0.5, weight.shape))
    x = keras.ops.convert_to_tensor(rng.normal(size=(2, 6, 6, 1)).astype("f4"))
    keep(out / "keras", import_tensorflow.export(out / "keras", "keras", net, x=x), [net(x)])
    without_paths(out / "keras/programs/keras.mlir")

    # Ten steps of a training, whose program assigns the weights and the count of steps.
    net = keras.Sequential([keras.Input((8,)), keras.layers.Dense(6, activation="tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(net.trainable_variables)

    def step(x, t):
        with tensorflow.GradientTape() as tape:
            loss = keras.ops.mean((net(x) - t) ** 2)
        optimizer.apply(tape.gradient(loss, net.trainable_variables))
        return loss

    step.variables = net.variables + optimizer.variables
    x, t = (keras.ops.convert_to_tensor(rng.normal(size=(16, n)).astype("f4")) for n in (8, 1))
    line = import_tensorflow.export(out / "steps", "steps", step, x=x, t=t)
    without_paths(out / "steps/programs/steps.mlir")
    for _ in range(10):
        loss = step(x, t)
    keep(out / "steps", "steps x t -> y", [loss])
    (out / "steps/run").write_text(f"{line.replace('> y', '> got/y')} repeat=10\n")


def without_paths(program):
    """TensorFlow names its files in the text."""
    program.write_text(re.sub(r'"/[^"]*"', '"ops.py"', program.read_text()))


def of_onnx(out):
    import import_onnx
    import jax
    import onnx
    import onnx.reference
    from onnx import helper
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*")
    jax.config.update("jax_traceback_in_locations_limit", 0)
    weights = {"conv.w": rng.normal(size=(4, 1, 3, 3)).astype("f4"), "conv.b": rng.normal(size=4).astype("f4"),
               "/fc/w": rng.normal(size=(5, 64)).astype("f4"), "fc.b": rng.normal(size=5).astype("f4"), "shape": np.array([-1, 64])}
    weights |= {f"norm.{one}": rng.uniform(0.5, 1, size=4).astype("f4") for one in "sbmv"}
    nodes = [helper.make_node("Conv", ["image.1", "conv.w", "conv.b"], ["a"], kernel_shape=[3, 3], name="1"),
             helper.make_node("BatchNormalization", ["a", *(f"norm.{one}" for one in "sbmv")], ["b"], name="2"),
             helper.make_node("Relu", ["b"], ["c"], name="3"), helper.make_node("Reshape", ["c", "shape"], ["d"], name="4"),
             helper.make_node("Gemm", ["d", "/fc/w", "fc.b"], ["y"], transB=1, name="5")]
    images = [helper.make_tensor_value_info("image.1", onnx.TensorProto.FLOAT, ["batch", 1, 6, 6])]
    results = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 5])]
    graph = helper.make_graph(nodes, "g", images, results, [onnx.numpy_helper.from_array(w, name) for name, w in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, out / "onnx.onnx")
    image = rng.normal(size=(2, 1, 6, 6)).astype("f4")
    line = import_onnx.export(out / "onnx", out / "onnx.onnx", {"batch": 2})
    np.save(out / "onnx/buffers/image_1.npy", image)
    keep(out / "onnx", line, onnx.reference.ReferenceEvaluator(model).run(None, {"image.1": image}))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    directory = pathlib.Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    {"torch": of_torch, "torch_xla": of_torch_xla, "tensorflow": of_tensorflow, "onnx": of_onnx}[sys.argv[1]](directory)
