"""Opacus: one step of its optimizer on a linear loss, whose claim is GDP with mu = 1 / noise multiplier."""

from __future__ import annotations

from serve import Case, controls, each, main, seen

DOCS = "opacus.optimizers.DPOptimizer, noise of noise_multiplier x max_grad_norm"


def step(clipping="flat", *, failures=False):
    """What a step with learning rate 1 adds to the weights, for the loss -<row, w>; rows are scaled to norm 1."""

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
                torch.optim.SGD(model.parameters(), lr=1.0), noise_multiplier=1.0, max_grad_norm=norm,
                expected_batch_size=1, loss_reduction="sum",
            )  # fmt: skip
            if len(rows):
                (-model(torch.tensor(rows, dtype=torch.float32))).sum().backward()
            else:  # what its data loader does with a sample without rows
                model(torch.zeros((0, rows.shape[1]))).sum().backward()
            optimizer.step()
            return layer.weight.detach().numpy().ravel()

        return each(seen(release) if failures else release)

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


VECTORS = {"low": (-2.0,) * 2, "high": (2.0,) * 2, "epsilon": None, "adjacency": "add_remove", "runs": 6_000}
CASES = {
    "one step": Case(step(), DOCS, **VECTORS, mu=1.0, sizes=(1, 4)),
    "one step, empty samples": Case(step(failures=True), DOCS, **VECTORS, mu=1.0, sizes=(0,)),
    "one step, a norm for each layer": Case(step("per layer"), DOCS, **VECTORS, mu=1.0, sizes=(1, 4)),
    **controls(textbook, "a Gaussian sum by torch's generator", **{**VECTORS, "runs": 20_000}, mu=1.0, sizes=(1, 4)),
}

if __name__ == "__main__":
    main("opacus", CASES)
