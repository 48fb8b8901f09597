"""Opacus: steps of its optimizer on a linear loss, whose claim is GDP with mu = sqrt(steps) / noise multiplier.

Exact cases state the sum of all noisy sums, and test the epsilon of Opacus's accountants, and the noise that
``get_noise_multiplier`` returns for an epsilon.
"""

from __future__ import annotations

import math
import warnings

from serve import Case, canary_controls, cells, controls, each, exact_controls, main, normal, samples, seen

DELTA = 1e-3
DOCS = "opacus.optimizers.DPOptimizer, noise of noise_multiplier x max_grad_norm"


def step(clipping="flat", *, failures=False, noise=1.0, steps=1):
    """What steps with learning rate 1 add to the weights, for the loss -<row, w>; rows are scaled to norm 1."""

    def make():
        import torch
        from opacus import GradSampleModule
        from opacus.optimizers import DPOptimizer, DPPerLayerOptimizer

        torch.set_num_threads(1)

        def release(rows):
            layer = torch.nn.Linear(rows.shape[1], 1, bias=False)
            torch.nn.init.zeros_(layer.weight)
            model = GradSampleModule(layer, loss_reduction="sum")
            kind, norm = (DPOptimizer, 1.0) if clipping == "flat" else (DPPerLayerOptimizer, [1.0])
            optimizer = kind(
                torch.optim.SGD(model.parameters(), lr=1.0), noise_multiplier=noise, max_grad_norm=norm,
                expected_batch_size=1, loss_reduction="sum",
            )  # fmt: skip
            for _ in range(steps):
                optimizer.zero_grad()
                if len(rows):
                    (-model(torch.tensor(rows, dtype=torch.float32))).sum().backward()
                else:  # what its data loader does with a sample without rows
                    model(torch.zeros((0, rows.shape[1]))).sum().backward()
                optimizer.step()
            return layer.weight.detach().numpy().ravel()

        return each(seen(release) if failures else release)

    return make


def ghost(noise, steps):
    """The same by ghost clipping, which computes norms of gradients without the gradients."""

    def make():
        import torch
        from opacus.grad_sample import GradSampleModuleFastGradientClipping
        from opacus.optimizers import DPOptimizerFastGradientClipping
        from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

        torch.set_num_threads(1)

        class Linear(torch.nn.Module):
            reduction = "sum"

            def forward(self, found, target):
                return -found.ravel()

        def release(rows):
            layer = torch.nn.Linear(rows.shape[1], 1, bias=False)
            torch.nn.init.zeros_(layer.weight)
            model = GradSampleModuleFastGradientClipping(
                layer, max_grad_norm=1.0, use_ghost_clipping=True, loss_reduction="sum"
            )
            optimizer = DPOptimizerFastGradientClipping(
                torch.optim.SGD(model.parameters(), lr=1.0), noise_multiplier=noise, max_grad_norm=1.0,
                expected_batch_size=1, loss_reduction="sum",
            )  # fmt: skip
            loss = DPLossFastGradientClipping(model, optimizer, Linear(), "sum")
            for _ in range(steps):
                optimizer.zero_grad()
                loss(model(torch.tensor(rows, dtype=torch.float32)), None).backward()
                optimizer.step()
            return layer.weight.detach().numpy().ravel()

        return each(release)

    return make


def textbook(noise):
    """A step of torch's SGD on the sum of rows, scaled to norm 1 here, and torch's noise."""

    def make():
        import torch

        torch.set_num_threads(1)

        def release(rows):
            table = torch.tensor(rows, dtype=torch.float32)
            table = table / table.norm(dim=1, keepdim=True).clamp(min=1.0)
            weight = torch.nn.Parameter(torch.zeros(rows.shape[1]))
            weight.grad = -(table.sum(dim=0) + noise * torch.randn(rows.shape[1]))
            torch.optim.SGD([weight], lr=1.0).step()
            return weight.detach().numpy()

        return each(release)

    return make


def columns(scale):
    """The sum of rows and Laplace noise of torch."""

    def make():
        import torch

        def release(rows):
            noise = torch.distributions.Laplace(0.0, scale).sample((rows.shape[1],))
            return rows.sum(axis=0) + noise.numpy()

        return each(release)

    return make


def epsilon_of(kind, noise, rate, steps):
    """A function that has an accountant of Opacus compute epsilon."""

    def compute():
        from opacus.accountants import create_accountant

        warnings.simplefilter("ignore")
        accountant = create_accountant(kind)
        for _ in range(steps):
            accountant.step(noise_multiplier=noise, sample_rate=rate)
        return accountant.get_epsilon(delta=DELTA)

    return compute


def calibrated(kind, steps):
    """The noise for epsilon = 1 and all rows in every step."""

    def make():
        from opacus.accountants.utils import get_noise_multiplier

        noise = get_noise_multiplier(
            target_epsilon=1.0, target_delta=DELTA, sample_rate=1.0, steps=steps, accountant=kind
        )  # fmt: skip
        return lambda rows: normal(steps * rows.sum(), noise * math.sqrt(steps))

    return Case(make, f"opacus.accountants.utils.get_noise_multiplier, accountant {kind!r}", **EXACT, epsilon=1.0)


def accounted(kind, noise, rate, steps, source="", sizes=(0, 1)):
    if rate == 1.0:
        law = lambda rows: normal(steps * rows.sum(), noise * math.sqrt(steps))  # noqa: E731
    else:
        law = lambda rows: cells(samples(rows, rate), noise, steps)  # noqa: E731
    claim = epsilon_of(kind, noise, rate, steps)
    return Case(
        lambda: law, f"opacus.accountants, {kind!r}{source}", **{**EXACT, "sizes": sizes}, epsilon=claim
    )  # fmt: skip


MANY = {"kind": "canaries", "epsilon": None, "delta": 1e-10}
EXACT = {"kind": "exact", "low": (-1.0,), "delta": DELTA, "adjacency": "add_remove", "sizes": (0, 1)}
WARNED = ", which warns that it can underestimate: arXiv 2106.02848"
VECTORS = {"low": (-2.0,) * 2, "high": (2.0,) * 2, "epsilon": None, "adjacency": "add_remove", "runs": 6_000}
CASES = {
    "one step": Case(step(), DOCS, **VECTORS, mu=1.0, sizes=(1, 4)),
    "one step, empty samples": Case(step(failures=True), DOCS, **VECTORS, mu=1.0, sizes=(0,)),
    "one step, a norm for each layer": Case(step("per layer"), DOCS, **VECTORS, mu=1.0, sizes=(1, 4)),
    **controls(textbook, "a Gaussian sum by torch's generator", **{**VECTORS, "runs": 20_000}, mu=1.0, sizes=(1, 4)),
    "canaries, four steps": Case(
        step(noise=8.0, steps=4), DOCS, canaries=2_000, **MANY, mu=0.25, adjacency="add_remove"
    ),
    "canaries, four steps, a norm for each layer": Case(
        step("per layer", noise=8.0, steps=4), DOCS, canaries=2_000, **MANY, mu=0.25, adjacency="zero_out"
    ),
    "canaries, four steps, ghost clipping": Case(
        ghost(8.0, 4), DOCS, canaries=2_000, **MANY, mu=0.25, adjacency="add_remove"
    ),
    **canary_controls(columns, "Laplace noise by torch's generator"),
    **exact_controls(),
}
for KIND in ("rdp", "prv", "gdp"):
    CASES |= {
        f"exact, noise for one step, {KIND}": calibrated(KIND, 1),
        f"exact, noise for 16 steps, {KIND}": calibrated(KIND, 16),
        f"exact, all rows, 16 steps, {KIND}": accounted(KIND, 4.0, 1.0, 16),
        f"exact, half of the rows, one step, {KIND}": accounted(KIND, 1.0, 0.5, 1, WARNED if KIND == "gdp" else ""),
        f"exact, a tenth of the rows, one step, {KIND}": accounted(KIND, 0.7, 0.1, 1, WARNED if KIND == "gdp" else ""),
        f"exact, a quarter of the rows, two steps, {KIND}": accounted(
            KIND, 0.7, 0.25, 2, WARNED if KIND == "gdp" else "", sizes=(0,)
        ),
    }

if __name__ == "__main__":
    main("opacus", CASES)
