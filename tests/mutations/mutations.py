"""The faults that mutant.c can have, and where in the conformance suite each of them ought to be found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """A fault."""

    #: The name by which mutant.c knows it.
    name: str
    #: What is wrong with a backend that has it.
    text: str
    #: Prefixes of the names of the cases that are run; empty: all of the op that the name begins with.
    cases: tuple[str, ...] = ()
    #: fast: a fault of what is computed, on the stub's fast mode. alone: as fast, but in a process of its own, which it
    #: may end. strict: a fault of the order of work, on the strict mode, in a process of its own.
    mode: str = "fast"

    @property
    def prefixes(self) -> tuple[str, ...]:
        return self.cases or (self.name.split("/")[0],)


def _strict(name: str, text: str, *cases: str) -> Mutation:
    return Mutation(name, text, cases, "strict")


MUTATIONS = (
    Mutation("map/first axis dense", "an input's first stride is computed from the second", ("map/add",)),
    Mutation("map/output axis dense", "the output's first stride is computed from the second", ("map/add",)),
    Mutation("map/parameters", "a function's parameters after the second are 0"),
    Mutation("map/int64 in double", "int64 is computed in double", ("map/add", "map/multiply", "map/maximum")),
    Mutation("map/beyond 2^20", "elements from 2^20 on are left out", ("map/add",)),
    Mutation("copy/equal axes swapped", "the first two axes are swapped if they have one length"),
    Mutation("copy/int64 in double", "int64 passes through double"),
    Mutation("copy/nan quieted", "a signalling NaN becomes a quiet one"),
    Mutation("copy/negative zero", "-0 becomes 0"),
    Mutation("copy/subnormals", "subnormal float32 become 0"),
    Mutation("copy/beyond 2^20", "elements from 2^20 on are left out"),
    Mutation("cast/half toward zero", "float32 is cut, not rounded, to float16"),
    Mutation("cast/double rounding", "float64 becomes float16 by way of float32"),
    Mutation("cast/integers rounded", "float32 is rounded, not cut, to int32"),
    Mutation("cast/int64 in double", "integers become int64 by way of double"),
    Mutation("cast/uint64 signed", "uint64 is taken for int64 on the way to float64"),
    Mutation("cast/beyond 2^20", "elements from 2^20 on are left out"),
    Mutation("fill/int64 in double", "int64 passes through double"),
    Mutation("fill/negative zero", "-0 becomes 0"),
    Mutation("fill/beyond 2^20", "elements from 2^20 on are left out"),
    Mutation("iota/start in float", "an integer start passes through float"),
    Mutation("iota/int64 in double", "int64 passes through double"),
    Mutation("triangular/negative diagonal", "diagonals below the main one are taken for it"),
    Mutation("triangular/beyond 2^20", "elements from 2^20 on are left out"),
    Mutation("gather/nan quieted", "a signalling NaN becomes a quiet one"),
    Mutation("gather/int64 in double", "int64 passes through double"),
    Mutation("gather/index wraps", "negative indices count from the end unasked"),
    Mutation("gather/index never wraps", "negative indices do not count from the end"),
    Mutation("gather/index unchecked", "an index out of range is no error", ("gather", "errors")),
    Mutation("gather/beyond 2^20", "elements from 2^20 on are left out"),
    Mutation("scatter/first wins", "of several updates of an element the first one stays"),
    Mutation("scatter/overwrites", "a sum keeps one update of an element"),
    Mutation("scatter/int64 in double", "int64 passes through double"),
    Mutation("scatter_nd/first wins", "of several updates of an element the first one stays"),
    Mutation("reduce/int64 in double", "int64 is summed in double", ("reduce/sum",)),
    Mutation("reduce/beyond 2^20", "terms from 2^20 on are left out", ("reduce/sum", "reduce/mean")),
    Mutation("reduce/nan skipped", "a maximum does not see NaN", ("reduce/maximum",)),
    Mutation("reduce/mean floored", "the mean of integers is floored", ("reduce/mean",)),
    Mutation("reduce/first axis dense", "the first stride is computed from the second", ("reduce/sum",)),
    Mutation("arg_reduce/last of equals", "the last of equals is named"),
    Mutation("scan/exclusive", "exclusive is ignored"),
    Mutation("scan/int64 in double", "int64 passes through double"),
    Mutation("scan/beyond 2^20", "elements from 2^20 on are left out"),
    Mutation("sort/not stable", "equals change their order"),
    Mutation("sort/int64 in double", "int64 passes through double"),
    Mutation("top_k/ties by higher index", "of equals the one of the higher index comes first"),
    Mutation("matmul/fourth axis", "the stride of a's fourth axis from the end is computed from the third"),
    Mutation("matmul/fourth batch axis", "the stride of a's fourth batch axis is computed from the third"),
    Mutation("matmul/square transposed", "a is transposed if it is square"),
    Mutation("matmul/alpha", "alpha is ignored"),
    Mutation("matmul/beta", "beta is ignored"),
    Mutation("matmul/int64 in double", "int64 passes through double"),
    Mutation("matmul/relu drops nan", "a fused relu makes 0 of NaN"),
    Mutation("matmul/tf32 unasked", "results have TF32's digits in the strict mode"),
    Mutation("matmul/bfloat16 for tf32", "results have bfloat16's digits where TF32 is allowed"),
    Mutation("convolution/relu drops nan", "a fused relu makes 0 of NaN"),
    Mutation("convolution/dilation", "dilation is ignored"),
    Mutation("convolution/padding swapped", "padding before and after are swapped"),
    Mutation("convolution/groups mixed", "groups take each other's channels"),
    Mutation("convolution/filter flipped", "a convolution as mathematicians mean it"),
    Mutation("pool/padding counts", "an average counts padding that it should not"),
    Mutation("pool/ceil mode", "windows that reach beyond the padding are left out"),
    Mutation("softmax/unguarded", "exp without the maximum taken off"),
    Mutation("softmax/axis", "it runs along the last axis, whatever the axis"),
    Mutation("softmax/beyond 2^20", "elements from 2^20 on are left out"),
    Mutation("cross_entropy/ignore index", "ignore_index is ignored", ("cross_entropy",)),
    Mutation("cross_entropy/weights", "the weights of classes are ignored", ("cross_entropy",)),
    Mutation("batch_norm/epsilon", "epsilon is ignored"),
    Mutation("batch_norm/epsilon fixed", "epsilon is always 1e-5"),
    Mutation("batch_norm/epsilon in inference", "epsilon is ignored in inference"),
    Mutation("batch_norm/momentum", "momentum is always 0.9"),
    Mutation("batch_norm/unbiased running", "the running variance is the biased one"),
    Mutation("batch_norm/variance unbiased", "variances are divided by n - 1"),
    Mutation("batch_norm/relu drops nan", "a fused relu makes 0 of NaN"),
    Mutation("batch_norm_backward/epsilon", "epsilon is ignored"),
    Mutation("layer_norm/epsilon", "epsilon is ignored"),
    Mutation("layer_norm_backward/epsilon", "epsilon is ignored"),
    Mutation("group_norm/epsilon", "epsilon is ignored"),
    Mutation("group_norm_backward/epsilon", "epsilon is ignored"),
    Mutation("rms_norm/epsilon", "epsilon is ignored"),
    Mutation("attention/mask", "the mask is ignored"),
    Mutation("attention/scale", "the scale is ignored"),
    Mutation("attention/causal", "rows see the columns behind them"),
    Mutation("random/key cut", "the upper half of the key is ignored"),
    Mutation("random/counter cut", "the upper half of the counter is ignored"),
    Mutation("random/beyond 2^20", "elements from 2^20 on are left out"),
    Mutation("dropout/key cut", "the upper half of the key is ignored"),
    Mutation("resize/half pixels", "half_pixel_centers is ignored"),
    Mutation("resize/scale", "an explicit scale is ignored"),
    Mutation("resize_backward/scale", "an explicit scale is ignored"),
    Mutation("grid_sample/padding", "outside are always zeros"),
    Mutation("grid_sample_backward_data/corners", "align_corners is ignored"),
    Mutation("grid_sample_backward_grid/edges", "edge_gradient is ignored"),
    Mutation("fft/direction", "every transform is a forward one"),
    Mutation("fft/normalization", "the scale is ignored"),
    Mutation("fft/axes", "only the first axis is transformed"),
    Mutation("triangular_solve/triangle", "the other triangle is taken"),
    Mutation("triangular_solve/unit diagonal", "the diagonal is always read"),
    Mutation("triangular_solve/conjugate", "the matrix is never conjugated"),
    Mutation("cholesky/upper", "the lower triangle is always taken"),
    Mutation("eigen_symmetric/upper", "the lower triangle is always read"),
    Mutation("rnn/reverse", "every direction begins at the first step"),
    Mutation("rnn/clip", "cells are never cut"),
    Mutation("rnn_backward/reverse", "every direction begins at the first step"),
    Mutation("ctc_loss/blank", "the blank is always class 0"),
    Mutation("ctc_loss/infinity", "zero_infinity is ignored"),
    Mutation("copies/whole words", "copies move whole words only"),
    Mutation("fill/half a pattern", "of 16 bytes of a pattern the first 8 are repeated", ("copies/fill",)),
    Mutation("fill/pattern read later", "a fill's pattern is read when the fill runs", ("copies/fill",)),
    Mutation("launch/read later", "an op's description is read when the op runs", ("streams",), "alone"),
    Mutation("events/elapsed a thousandth", "elapsed time is in microseconds", ("events",)),
    Mutation("events/elapsed a thousandfold", "elapsed time is in picoseconds", ("events",)),
    Mutation("events/elapsed constant", "elapsed time is a millisecond", ("events",)),
    _strict("events/elapsed at submission", "events are stamped when they are submitted"),
    _strict("events/query", "every event has been reached"),
    _strict("events/synchronize", "nothing waits for an event's work"),
    _strict("events/wait", "no stream waits for an event"),
    _strict("events/record overtakes", "an event is reached before the work in front of it"),
    _strict("streams/query", "every stream is done"),
    _strict("streams/synchronize", "nothing waits for a stream's work"),
    _strict("streams/callback early", "a host callback runs when it is submitted"),
    _strict("copies/overtake", "copies to the host overtake the work in front of them", "streams", "copies"),
    Mutation("collectives/average", "the average is the sum", ("collectives/all_reduce/average",)),
    Mutation("collectives/product", "the product is the sum", ("collectives/all_reduce/product",)),
    Mutation("collectives/minimum", "the minimum is the maximum", ("collectives/all_reduce/minimum",)),
    Mutation("collectives/signed", "uint64 is taken for int64", ("collectives/all_reduce/maximum",)),
    Mutation("collectives/root", "a broadcast is always of rank 0", ("collectives/broadcast",), "alone"),
    Mutation("collectives/beyond 2^20", "elements from 2^20 on are left out", ("collectives/all_gather",)),
    _strict("collectives/overtake", "collectives overtake the work in front of them", "collectives/work_runs_in_order"),
    Mutation("memory/aligned to 64", "addresses are multiples of 64 only", mode="alone"),
    Mutation("memory/handed out twice", "a block is given to two users", mode="alone"),
)
