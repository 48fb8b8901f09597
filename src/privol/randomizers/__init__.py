from functools import partial
from .._core._report import Report, ReportSampler
from ..noise import decide_lattice_point, decide_mixture_point, make_source, STREAM_RELEASES
class Randomizer(ReportSampler): pass
def compiled(noise):
    if noise.kind in ("gaussian","laplace"): w={"decide": partial(decide_lattice_point, law=noise.kind)}
    elif noise.kind in ("cap","l2_laplace"): w={"decide": decide_mixture_point}
    else: w={}
    return Report(**noise.numbers, **w)
def randomizer_of(noise, random_state=None):
    return Randomizer(make_source(random_state), report=compiled(noise), stream=STREAM_RELEASES)
