#include "tests/fuzz/op_templates.h"

namespace fuzz {
namespace {

constexpr uhal_map_attributes kMap = {sizeof kMap, 0, 0, {1, 2, 3, 4, 5, 6, 7, 8}};
// relu(x0 + x1), kept with its half; the fuzzer changes numbers of the program.
constexpr uhal_map_chain_attributes kMapChain = {sizeof kMapChain,  2, {2, 3}, {9, 30}, {{0, 1}, {2, 1}}, 0,
                                                 {{1, 2}, {0.5, 1}}};
constexpr uhal_fill_attributes kFill = {sizeof kFill, 1.5, 3};
constexpr uhal_iota_attributes kIota = {sizeof kIota, 0, 1, 0, 1};
constexpr uhal_triangular_attributes kTriangular = {sizeof kTriangular, 0, 0, 0};
constexpr uhal_index_attributes kIndex = {sizeof kIndex, 1, 0, UHAL_REDUCE_NONE, 0, 0, 0};
constexpr uhal_index_attributes kBatchIndex = {sizeof kBatchIndex, 1, 1, UHAL_REDUCE_NONE, 0, 0, 0};
constexpr uhal_segment_attributes kSegment = {sizeof kSegment, UHAL_REDUCE_SUM, UHAL_SEGMENT_UNSORTED, 0, 1, 0, 0};
constexpr uhal_segment_attributes kSortedSegment = {
    sizeof kSortedSegment, UHAL_REDUCE_MEAN, UHAL_SEGMENT_SORTED, 1, 0, 1, 1};
constexpr uhal_segment_attributes kSegmentOffsets = {
    sizeof kSegmentOffsets, UHAL_REDUCE_MAXIMUM, UHAL_SEGMENT_OFFSETS, 0, 1, -1, -1};
constexpr uhal_reduce_attributes kReduce = {sizeof kReduce, UHAL_REDUCE_SUM, 0};
constexpr uhal_axis_attributes kAxis = {sizeof kAxis, 1, 0};
constexpr uhal_scan_attributes kScan = {sizeof kScan, 1, UHAL_REDUCE_SUM, 0, 0};
constexpr uhal_scan_attributes kPlacedScan = {sizeof kPlacedScan, 1, UHAL_REDUCE_MAXIMUM, 0, 1};
constexpr uhal_matmul_attributes kMatmul = {sizeof kMatmul, 1, 1, UHAL_ACTIVATION_NONE, 0};
constexpr uhal_matmul_quantized_attributes kQuantized = {sizeof kQuantized, 8, UHAL_ACTIVATION_NONE, 0, 0};
constexpr uhal_matmul_quantized_attributes kHalves = {sizeof kHalves, 4, UHAL_ACTIVATION_RELU, 16, 8};
constexpr uhal_random_distribution_attributes kGamma = {sizeof kGamma, UHAL_RANDOM_GAMMA, 0, 7, {1, 0}};
constexpr uhal_random_distribution_attributes kBinomial = {sizeof kBinomial, UHAL_RANDOM_BINOMIAL, 0, 7, {1, 0}};
constexpr uhal_convolution_attributes kConvolution = {
    sizeof kConvolution, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, 1, UHAL_ACTIVATION_NONE, 0};
constexpr uhal_convolution_attributes kGroups = {sizeof kGroups,       {2, 1, 1}, {1, 2, 1}, {1, 0, 0}, {1, 2, 0}, 2,
                                                 UHAL_ACTIVATION_NONE, 0};
constexpr uhal_pool_attributes kPool = {sizeof kPool, UHAL_POOL_MAXIMUM, 0, {2, 2, 2}, {2, 1, 1}, {0, 1, 0}, {0, 1, 0}};
constexpr uhal_pool_attributes kAdaptive = {sizeof kAdaptive, UHAL_POOL_AVERAGE_EXCLUDE_PADDING, 1, {}, {}, {}, {}};
constexpr uhal_softmax_attributes kSoftmax = {sizeof kSoftmax, 1, 0};
constexpr uhal_cross_entropy_attributes kCrossEntropy = {sizeof kCrossEntropy, -1, 0, 0};
constexpr uhal_norm_attributes kNorm = {sizeof kNorm, 1e-5, 0.9, 0, 0, 1, UHAL_ACTIVATION_NONE, 2};
constexpr uhal_attention_attributes kAttention = {sizeof kAttention, 0, 0, 0};
constexpr uhal_random_attributes kRandom = {sizeof kRandom, UHAL_RANDOM_UNIFORM, 0, 7, {1, 0}, 0, 1};
constexpr uhal_random_attributes kDropout = {sizeof kDropout, UHAL_RANDOM_UNIFORM, 0, 7, {1, 0}, 0.5, 1};
constexpr uhal_resize_attributes kResize = {sizeof kResize, UHAL_RESIZE_NEAREST, 0, 0, 0, {0, 0, 0}};
constexpr uhal_grid_sample_attributes kGridSample = {
    sizeof kGridSample, UHAL_GRID_SAMPLE_LINEAR, UHAL_GRID_SAMPLE_REFLECTION, 0, 1, 0, 0};
constexpr uhal_roi_align_attributes kRoiAlign = {sizeof kRoiAlign, 1, 2, 0};
constexpr uhal_roi_pool_attributes kRoiPool = {sizeof kRoiPool, 0.5, UHAL_ROI_POOL_MAX, 0};
constexpr uhal_fft_attributes kFft = {sizeof kFft, UHAL_FFT_FORWARD, UHAL_FFT_BY_LENGTH, 2, {0, 1, 2}};
constexpr uhal_triangular_solve_attributes kTriangularSolve = {sizeof kTriangularSolve, 1, 0, 1, 0};
constexpr uhal_triangle_attributes kTriangle = {sizeof kTriangle, 1, 0};
constexpr uhal_search_attributes kSearch = {sizeof kSearch, 1, 0};
constexpr uhal_ctc_attributes kCtc = {sizeof kCtc, 2, 1};
constexpr uhal_rnn_attributes kLstm = {sizeof kLstm, UHAL_RNN_LSTM, 2, 0.5, UHAL_MATH_STRICT, 0};
constexpr uhal_rnn_attributes kGru = {sizeof kGru, UHAL_RNN_GRU, 1, 0, UHAL_MATH_STRICT, 0};
constexpr uhal_rnn_attributes kPlain = {sizeof kPlain, UHAL_RNN_TANH, 2, 0, UHAL_MATH_STRICT, 0};

#define WITH(attributes) &attributes, sizeof attributes
#define NONE nullptr, 0

}  // namespace

// clang-format off
const OpTemplate kOpTemplates[] = {
    // The operands of map are as many as its function has; the builder repeats the last one.
    {UHAL_OP_MAP, "abc/v", "abc/v", WITH(kMap)},
    {UHAL_OP_MAP, "abc b1/v", "abc/v", WITH(kMap)},
    {UHAL_OP_MAP, "()/v", "abcdef/v", WITH(kMap)},
    {UHAL_OP_MAP_CHAIN, "abc/v c/v", "abc/v abc/v?", WITH(kMapChain)},
    {UHAL_OP_COPY, "abc", "abc", NONE},
    {UHAL_OP_COPY, "bc", "abc", NONE},
    {UHAL_OP_CAST, "abcd/v", "abcd/v", NONE},
    {UHAL_OP_CAST, "1c/v", "abc/v", NONE},
    {UHAL_OP_FILL, "", "abc/v", WITH(kFill)},
    {UHAL_OP_IOTA, "", "abc/v", WITH(kIota)},
    {UHAL_OP_TRIANGULAR, "abc", "abc", WITH(kTriangular)},

    {UHAL_OP_GATHER, "abc ij/i", "aijc", WITH(kIndex)},
    {UHAL_OP_GATHER, "abc ai/i", "aic", WITH(kBatchIndex)},
    {UHAL_OP_SCATTER, "i/i aic", "abc", WITH(kIndex)},
    {UHAL_OP_SCATTER, "ai/i aic", "abc", WITH(kBatchIndex)},
    {UHAL_OP_GATHER_ND, "abc ij2/i", "ijc", WITH(kIndex)},
    {UHAL_OP_SCATTER_ND, "ij2/i ijc", "abc", WITH(kIndex)},
    {UHAL_OP_GATHER_ELEMENTS, "abc aic/i", "aic", WITH(kIndex)},
    {UHAL_OP_SCATTER_ELEMENTS, "aic/i aic", "abc", WITH(kIndex)},
    {UHAL_OP_ONE_HOT, "ac/i", "abc", WITH(kIndex)},
    {UHAL_OP_SEGMENT_REDUCE, "abc a/i", "kbc k/i?", WITH(kSegment)},
    {UHAL_OP_SEGMENT_REDUCE, "ab j/i j/i j?", "kb k/i?", WITH(kSortedSegment)},
    {UHAL_OP_SEGMENT_REDUCE, "a 4/i j/i j?", "3", WITH(kSegmentOffsets)},

    {UHAL_OP_REDUCE, "abcd", "a1c1", WITH(kReduce)},
    {UHAL_OP_REDUCE, "abc", "ab1", WITH(kReduce)},
    {UHAL_OP_REDUCE, "abc", "111", WITH(kReduce)},
    {UHAL_OP_REDUCE, "abc/v", "1bc/v", WITH(kReduce)},
    {UHAL_OP_ARG_REDUCE, "abc", "a1c/i", WITH(kAxis)},
    {UHAL_OP_SCAN, "abc", "abc", WITH(kScan)},
    {UHAL_OP_SCAN, "abc", "abc abc/i?", WITH(kPlacedScan)},
    {UHAL_OP_SORT, "abc", "abc abc/i?", WITH(kAxis)},
    {UHAL_OP_TOP_K, "abc", "a1c a1c/i", WITH(kAxis)},
    {UHAL_OP_TOP_K, "abc", "akc akc/i", WITH(kAxis)},

    {UHAL_OP_MATMUL, "mk kn n?", "mn", WITH(kMatmul)},
    {UHAL_OP_MATMUL, "abmk bkn abmn?", "abmn", WITH(kMatmul)},
    {UHAL_OP_MATMUL_QUANTIZED, "amk/h kn/q 1n/h 1n/h? n/h?", "amn/h", WITH(kQuantized)},
    {UHAL_OP_MATMUL_QUANTIZED, "m4/h 2n/q n/h ()/h? mn/h?", "mn/h", WITH(kHalves)},

    {UHAL_OP_TRIANGULAR_SOLVE, "bnn/s abnk/s", "abnk/s b/n?", WITH(kTriangularSolve)},
    {UHAL_OP_TRIANGULAR_SOLVE, "nn/c nk/c", "nk/c ()/n?", WITH(kTriangularSolve)},
    {UHAL_OP_CHOLESKY, "abnn/s", "abnn/s ab/n?", WITH(kTriangle)},
    {UHAL_OP_CHOLESKY, "nn/c", "nn/c ()/n?", WITH(kTriangle)},
    {UHAL_OP_LU, "a3n/s", "a3n/s a3/n a3/n? a/n?", NONE},
    {UHAL_OP_LU, "ann/c", "ann/c an/n an/n? a/n?", NONE},
    {UHAL_OP_QR, "amn/s", "amn/s amm/s?", NONE},
    {UHAL_OP_QR, "a7n/c", "a7n/c a77/c?", NONE},
    {UHAL_OP_EIGEN_SYMMETRIC, "ann/s", "an/s ann/s? a/n?", WITH(kTriangle)},
    {UHAL_OP_EIGEN_SYMMETRIC, "ann/c", "an/s ann/c? a/n?", WITH(kTriangle)},
    {UHAL_OP_SVD, "a33/s", "a3/s a33/s a33/s a/n?", NONE},
    {UHAL_OP_SVD, "an1/c", "a1/s ann/c a11/c a/n?", NONE},
    {UHAL_OP_EIGEN, "ann/s", "an/c ann/c? a/n?", NONE},
    {UHAL_OP_EIGEN, "ann/c", "an/c ann/c? a/n?", NONE},

    {UHAL_OP_CONVOLUTION, "ncxy ocrs o?", "noXY", WITH(kConvolution)},
    {UHAL_OP_CONVOLUTION, "nCxy Ocrs O?", "nOXY", WITH(kGroups)},
    {UHAL_OP_CONVOLUTION, "ncx ocr o?", "noX", WITH(kConvolution)},
    {UHAL_OP_CONVOLUTION, "ncxyz ocrst o?", "noXYZ", WITH(kConvolution)},
    {UHAL_OP_CONVOLUTION_BACKWARD_DATA, "noXY ocrs", "ncxy", WITH(kConvolution)},
    {UHAL_OP_CONVOLUTION_BACKWARD_DATA, "nOXY Ocrs", "nCxy", WITH(kGroups)},
    {UHAL_OP_CONVOLUTION_BACKWARD_FILTER, "ncxy noXY", "ocrs o?", WITH(kConvolution)},
    {UHAL_OP_CONVOLUTION_BACKWARD_FILTER, "nCxyz nOXYZ", "Ocrst O?", WITH(kGroups)},
    {UHAL_OP_POOL, "ncxy", "ncXY ncXY/i?", WITH(kPool)},
    {UHAL_OP_POOL, "ncxyz", "ncXYZ", WITH(kPool)},
    {UHAL_OP_POOL, "ncxy", "ncpq", WITH(kAdaptive)},
    {UHAL_OP_POOL_BACKWARD, "ncXY ncxy ncXY", "ncxy", WITH(kPool)},
    {UHAL_OP_POOL_BACKWARD, "ncpq ncxy? ncpq?", "ncxy", WITH(kAdaptive)},

    {UHAL_OP_SOFTMAX, "abc", "abc", WITH(kSoftmax)},
    {UHAL_OP_SOFTMAX_BACKWARD, "abc abc", "abc", WITH(kSoftmax)},
    {UHAL_OP_CROSS_ENTROPY, "ab a1/i b?", "a1 ab? ab?", WITH(kCrossEntropy)},
    {UHAL_OP_CROSS_ENTROPY, "ab ab b?", "a1 ab? ab?", WITH(kCrossEntropy)},
    {UHAL_OP_CROSS_ENTROPY_BACKWARD, "ab a1/i a1", "ab", WITH(kCrossEntropy)},
    {UHAL_OP_BATCH_NORM, "ncxy c/s? c/s? c/s? c/s?", "ncxy c/s c/s c/s? c/s?", WITH(kNorm)},
    {UHAL_OP_BATCH_NORM_BACKWARD, "ncxy ncxy c/s? c/s c/s", "ncxy c/s? c/s?", WITH(kNorm)},
    {UHAL_OP_LAYER_NORM, "abc bc/s? bc/s?", "abc a11/s? a11/s?", WITH(kNorm)},
    {UHAL_OP_LAYER_NORM_BACKWARD, "abc abc bc/s? a11/s a11/s", "abc bc/s? bc/s?", WITH(kNorm)},
    {UHAL_OP_GROUP_NORM, "nCx C/s? C/s?", "nCx n2/s n2/s", WITH(kNorm)},
    {UHAL_OP_GROUP_NORM_BACKWARD, "nCx nCx C/s? n2/s n2/s", "nCx C/s? C/s?", WITH(kNorm)},
    {UHAL_OP_RMS_NORM, "abc bc/s?", "abc a11/s?", WITH(kNorm)},
    {UHAL_OP_RMS_NORM_BACKWARD, "abc abc bc/s? a11/s", "abc bc/s?", WITH(kNorm)},

    {UHAL_OP_ATTENTION, "bhmd bhnd bhne mn?", "bhme bhm/s?", WITH(kAttention)},
    {UHAL_OP_ATTENTION_BACKWARD, "bhmd bhnd bhne mn? bhme bhm/s bhme", "bhmd bhnd bhne", WITH(kAttention)},

    {UHAL_OP_RANDOM, "", "abc/v", WITH(kRandom)},
    {UHAL_OP_DROPOUT, "abc", "abc abc/m", WITH(kDropout)},
    {UHAL_OP_RANDOM_DISTRIBUTION, "abc/h", "abc/h", WITH(kGamma)},
    {UHAL_OP_RANDOM_DISTRIBUTION, "c/h b1/h", "abc/i", WITH(kBinomial)},
    {UHAL_OP_RESIZE, "ncxy", "ncpq", WITH(kResize)},
    {UHAL_OP_RESIZE_BACKWARD, "ncpq", "ncxy", WITH(kResize)},
    {UHAL_OP_GRID_SAMPLE, "ncxy npq2 n/i?", "ncpq", WITH(kGridSample)},
    {UHAL_OP_GRID_SAMPLE_BACKWARD_DATA, "ncpq npq2 n/i?", "ncxy", WITH(kGridSample)},
    {UHAL_OP_GRID_SAMPLE_BACKWARD_GRID, "ncpq ncxy npq2 n/i?", "npq2", WITH(kGridSample)},
    {UHAL_OP_ROI_ALIGN, "ncxy r4 r/i", "rcpq", WITH(kRoiAlign)},
    {UHAL_OP_ROI_ALIGN_BACKWARD, "rcpq r4 r/i", "ncxy", WITH(kRoiAlign)},
    {UHAL_OP_ROI_POOL, "ncxy r4 r/i", "rcpq rcpq/i?", WITH(kRoiPool)},
    {UHAL_OP_ROI_POOL_BACKWARD, "rcpq r4 r/i rcpq/i", "ncxy", WITH(kRoiPool)},
    {UHAL_OP_NON_MAX_SUPPRESSION, "n4", "n/m", NONE},
    {UHAL_OP_RESAMPLE, "abc p/i pq", "apc", WITH(kAxis)},
    {UHAL_OP_FFT, "abc/c", "abc/c", WITH(kFft)},
    {UHAL_OP_FFT, "a6c/s", "a4c/c", WITH(kFft)},
    {UHAL_OP_FFT, "a4c/c", "a7c/s", WITH(kFft)},

    {UHAL_OP_NONZERO, "abc", "1/i k/i?", NONE},
    {UHAL_OP_NONZERO, "abc/v", "()/i k3/i?", NONE},
    {UHAL_OP_COMPACT, "abc abc/m", "k 1/i?", NONE},
    {UHAL_OP_COMPACT, "abc/v abc", "k ()/i?", NONE},
    {UHAL_OP_SEARCH_SORTED, "k abc", "abc/i", WITH(kSearch)},
    {UHAL_OP_SEARCH_SORTED, "abk abc", "abc/i", WITH(kSearch)},

    {UHAL_OP_RNN, "2ab8 282 2b2? 2b2? 28? b/i?", "2ab2 2b2?", WITH(kLstm)},
    {UHAL_OP_RNN, "2ab4 241 2b1? 2b1? 24? b/i?", "2ab1 2b1? 2ab5?", WITH(kLstm)},
    {UHAL_OP_RNN, "1ab6 162 1b2?", "1ab2", WITH(kGru)},
    {UHAL_OP_RNN, "2abc 2cc 2bc?", "2abc", WITH(kPlain)},
    {UHAL_OP_CTC_LOSS, "ab3 bl/i b/i? b/i?", "b ab3?", WITH(kCtc)},
    {UHAL_OP_RNN_BACKWARD, "2ab1 241 2ab1 2ab5 2b1? b/i? 2b1? 2b1?", "2ab4", WITH(kLstm)},
    {UHAL_OP_RNN_BACKWARD, "1ab2 162 1ab2 1ab8 1b2? b/i? 1b2?", "1ab6 1ab6 1b2?", WITH(kGru)},
    {UHAL_OP_RNN_BACKWARD, "2abc 2cc 2abc", "2abc", WITH(kPlain)},
};
// clang-format on
const int kOpTemplateCount = sizeof kOpTemplates / sizeof *kOpTemplates;

}  // namespace fuzz
