"""Writes torch.txt or optax.txt: parameters after steps of PyTorch's or optax's optimisers, and rates of schedules.

python tests/tests/optim/goldens.py torch   (PyTorch 2)
python tests/tests/optim/goldens.py optax   (optax 0.2, JAX)
A line is `case/step/leaf` and the elements. The parameters start from `start`, and the gradient of a leaf is
`slope * x + cos(x)`; all numbers are fractions, so that the tests compute the same.
"""

import os
import sys

import numpy as np

STEPS = 20
SHAPES = {"w": (3, 4), "b": (4,), "s": ()}
KEPT = [1, 2, 10, STEPS]
lines = []


def fractions(shape, first):
    n = int(np.prod(shape, dtype=int))
    return np.array([((first + i * 7) % 11 - 5) / 4 for i in range(n)], dtype=np.float64).reshape(shape)


start = {name: fractions(shape, i) for i, (name, shape) in enumerate(SHAPES.items())}
slope = {name: np.abs(fractions(shape, i + 3)) + 0.25 for i, (name, shape) in enumerate(SHAPES.items())}


def write(case, step, leaves):
    for name, x in leaves.items():
        numbers = " ".join(repr(float(v)) for v in np.asarray(x).reshape(-1))
        lines.append(f"{case}/{step}/{name} {numbers}")


def of_torch():
    import torch

    def params():
        return {name: torch.tensor(x, requires_grad=True) for name, x in start.items()}

    def run(case, make):
        xs = params()
        optimiser = make(list(xs.values()))
        for step in range(1, STEPS + 1):
            for name, x in xs.items():
                x.grad = (torch.tensor(slope[name]) * x + torch.cos(x)).detach()
            optimiser.step()
            if step in KEPT:
                write(case, step, {name: x.detach().numpy() for name, x in xs.items()})

    optim = torch.optim
    run("sgd", lambda xs: optim.SGD(xs, lr=0.05, momentum=0.9, nesterov=True))
    run("adam", lambda xs: optim.Adam(xs, lr=0.05))
    run("adamw", lambda xs: optim.AdamW(xs, lr=0.05, weight_decay=0.1))
    run("rmsprop", lambda xs: optim.RMSprop(xs, lr=0.02, alpha=0.9))
    run("rmsprop_momentum", lambda xs: optim.RMSprop(xs, lr=0.02, alpha=0.9, momentum=0.8))
    run("adagrad", lambda xs: optim.Adagrad(xs, lr=0.3, initial_accumulator_value=0.5))
    run("adafactor", lambda xs: optim.Adafactor(xs, lr=0.05, eps=(1e-15, 1e-3), weight_decay=0.1))
    run("adafactor_clip", lambda xs: optim.Adafactor(xs, lr=0.5, eps=(1e-15, 2.0), d=1.1, beta2_decay=-0.6))

    def groups(xs):
        w, b, s = xs
        return optim.AdamW([
            {"params": [w]},
            {"params": [b], "weight_decay": 0.0},
            {"params": [s], "lr": 0.2},
        ], lr=0.05, weight_decay=0.1)
    run("groups", groups)

    # Rates at which the search accepts the first point, shortens and lengthens it. A change of the last bit of the
    # start changes the last point by less than 1e-13.
    def run_lbfgs(case, lr):
        x = torch.tensor(fractions((9,), 0), requires_grad=True)
        slopes = 2.0 ** torch.arange(9, dtype=torch.float64)
        lbfgs = optim.LBFGS([x], lr=lr, max_iter=1, max_eval=26, history_size=5, line_search_fn="strong_wolfe")

        def closure():
            lbfgs.zero_grad()
            loss = (slopes * x ** 2 / 2 + torch.sin(x)).sum()
            loss.backward()
            return loss

        for step in range(1, STEPS + 1):
            lbfgs.step(closure)
            write(case, step, {"x": x.detach().numpy()})

    run_lbfgs("lbfgs", 1.0)
    run_lbfgs("lbfgs_long", 3.0)
    run_lbfgs("lbfgs_short", 0.1)

    def rates(case, make, n):
        optimiser = optim.SGD([torch.zeros(1)], lr=0.5)
        schedule = make(optimiser)
        found = []
        for _ in range(n):
            found.append(optimiser.param_groups[0]["lr"])
            optimiser.step()
            schedule.step()
        write(case, 0, {"rates": found})

    lrs = optim.lr_scheduler
    rates("exponential", lambda o: lrs.ExponentialLR(o, 0.9), 30)
    rates("cosine", lambda o: lrs.CosineAnnealingLR(o, 40, eta_min=0.01), 41)
    rates("one_cycle", lambda o: lrs.OneCycleLR(o, 0.5, total_steps=50), 50)
    rates("steps", lambda o: lrs.MultiStepLR(o, [10, 20], gamma=0.1), 30)
    rates("warm_up", lambda o: lrs.SequentialLR(o, [
        lrs.LinearLR(o, 0.25, 1.0, 8),
        lrs.CosineAnnealingLR(o, 20),
    ], [8]), 29)

    xs = params()
    for name, x in xs.items():
        x.grad = torch.tensor(slope[name])
    torch.nn.utils.clip_grad_norm_(list(xs.values()), 0.5)
    write("clip_by_norm", 0, {name: x.grad.numpy() for name, x in xs.items()})


def of_optax():
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    import optax

    def run(case, optimiser):
        xs = {name: jnp.array(x) for name, x in start.items()}
        state = optimiser.init(xs)
        average = optax.ema(0.9)
        mean = average.init(xs)
        for step in range(1, STEPS + 1):
            grads = {name: slope[name] * x + jnp.cos(x) for name, x in xs.items()}
            updates, state = optimiser.update(grads, state, xs)
            xs = optax.apply_updates(xs, updates)
            value, mean = average.update(xs, mean)
            if step in KEPT:
                write(case, step, xs)
                write(case + "_average", step, value)

    run("lion", optax.lion(0.02, b1=0.9, b2=0.95, weight_decay=0.1))
    run("lamb", optax.lamb(0.05, weight_decay=0.1))
    run("lamb_plain", optax.lamb(0.05))
    run("clipped", optax.chain(optax.clip(0.5), optax.adam(0.05)))

    # `optax.MultiSteps` adds in single precision.
    xs = {name: jnp.array(x) for name, x in start.items()}
    adam = optax.adam(0.05)
    state = adam.init(xs)
    sums = {name: 0.0 for name in xs}
    for step in range(1, STEPS + 1):
        sums = {name: sums[name] + slope[name] * x + jnp.cos(x) for name, x in xs.items()}
        if step % 4 == 0:
            updates, state = adam.update({name: x / 4 for name, x in sums.items()}, state, xs)
            xs = optax.apply_updates(xs, updates)
            sums = {name: 0.0 for name in xs}
        if step in KEPT:
            write("accumulated", step, xs)
    linear = optax.linear_schedule(0.0, 0.3, 6)
    joined = optax.join_schedules([linear, optax.cosine_decay_schedule(0.3, 14)], [6])
    # A schedule of a count on the device is in single precision.
    xs = {name: jnp.array(x) for name, x in start.items()}
    for step in range(1, STEPS + 1):
        xs = {name: x - float(joined(step - 1)) * (slope[name] * x + jnp.cos(x)) for name, x in xs.items()}
        if step in KEPT:
            write("scheduled", step, xs)
    write("joined", 0, {"rates": [joined(i) for i in range(25)]})


library = sys.argv[1]
{"torch": of_torch, "optax": of_optax}[library]()
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), library + ".txt"), "w") as file:
    file.write("\n".join(lines) + "\n")
