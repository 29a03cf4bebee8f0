// What the kernels of this library have computed by code for one instruction set.
//
// vector/*.cpp are compiled once for each; a table of functions is chosen when
// the process starts (isa.h). Shapes are checked, and memory is taken, by the
// kernels above; here everything fits.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Can instructions of Intel's matrix unit be assembled, and the system be asked for its registers? Assemblers
// are not asked: they come with compilers that have a header for it.
#if defined(__x86_64__) && defined(__linux__) && defined(__has_include)
#if __has_include(<amxtileintrin.h>) || __has_include(<amxintrin.h>)
#define PENLIGHT_HAS_AMX
#endif
#endif

namespace penlight {
struct DenseLoops;  // kernels/common/dense_loops.h
}

namespace penlight::optimized {

// Weights lie in panels of this many outputs, the widest vector of any target.
constexpr ptrdiff_t kPanel = 16;

// What is done to a finished sum; the numbers are part of the file format.
enum class Activation : int {
  None = 0,
  Relu = 1,
  Clamp = 2,  // to [low, high]
  Sigmoid = 3,
  Tanh = 4,
  Silu = 5,
  Gelu = 6,
  GeluTanh = 7,
  HardSigmoid = 8,
  HardSwish = 9,
  LeakyRelu = 10,  // slope: low
};
constexpr int kActivations = 11;

// Bit (1 << number) for each activation that is compiled: a selective build leaves out
// those that no program of its fuses.
#ifndef PENLIGHT_ACTIVATIONS
#define PENLIGHT_ACTIVATIONS 0xffffu
#endif
constexpr bool is_compiled(Activation activation) {
  return (PENLIGHT_ACTIVATIONS >> static_cast<int>(activation) & 1u) != 0;
}

// A window that passes over channels-last images. A matrix is one image of one row, the
// window one pixel: see over_matrix().
struct Geometry {
  ptrdiff_t height, width;          // of the input
  ptrdiff_t out_height, out_width;  // of the output
  ptrdiff_t taps_h, taps_w;         // of the window
  ptrdiff_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
};

// What finishes the sums: activation(sum + residual).
struct Epilogue {
  const float* residual;  // laid out as the output; may be null
  Activation activation;
  float low, high;
};

enum class Format : uint8_t { Float32, Float16, BFloat16 };
constexpr ptrdiff_t kElementSizes[] = {4, 2, 2};  // of each, in bytes

// Some channels of an image.
struct InputPart {
  const float* input;
  ptrdiff_t pixel;  // elements from one column to the next
};

// What strassen() multiplies at once, which no part of a product may split.
constexpr ptrdiff_t kUnitRows = 16, kUnitPanels = 4;

// What split_product() multiplies at once: k of a step, rows of a tile and panels, which no part of a product
// splits.
constexpr ptrdiff_t kSplitStep = 32, kSplitRows = 16, kSplitPanels = 2;

// Elements of images that stay in the second cache while they are worked on.
constexpr ptrdiff_t kSecondCache = 1 << 19;

// Panels of a wide tile, and what is multiplied for one row at once, which no part of a product splits.
constexpr ptrdiff_t kWidePanels = 4;

// Weights by units, numbered part of k by part, in each column by column; some are multiplied directly.
struct Blocks {
  const int64_t* direct;  // their numbers
  ptrdiff_t count;
};

// Does the window pass over every pixel alone? Each row is then made from one of the input, in their order.
__attribute__((always_inline)) static inline bool is_matrix(const Geometry& g) {
  return g.taps_h == 1 && g.taps_w == 1 && g.stride_h == 1 && g.stride_w == 1 && g.pad_h == 0 &&
         g.pad_w == 0 && g.out_height == g.height && g.out_width == g.width;
}

// Sums of products of runs of the input with panels of weights, for the outputs
// [first_panel, last_panel) * kPanel and rows [first_row, last_row):
//
//   output[row, n] = activation(bias[n] + sum over taps t, channels c of
//                               input(row, t)[c] * weight[n, t, c] + residual[row, n])
//
// A linear layer has one tap and row `i` at input + i * pixel; a convolution has a
// row for each output position and a tap for each position of its window. Groups lie one
// after the other, in pixels, in packed weights and in rows of the output.
struct Product {
  const float* input;               // unless it has parts
  const void* packed;               // panel by panel: kPanel biases, then [tap][channel][kPanel]
  Format format = Format::Float32;  // of the weights
  float* output;
  ptrdiff_t output_pitch;  // elements from row to row, of the residual too
  ptrdiff_t outputs;       // columns of the output, of one group
  ptrdiff_t channels;      // elements of a run
  ptrdiff_t first_row, last_row, first_panel, last_panel;
  ptrdiff_t first_group = 0, last_group = 1;
  ptrdiff_t rows;                  // of all parts
  bool by_channels = false;        // vectors may be of channels: outputs are few
  const Blocks* blocks = nullptr;  // by strassen(), where there is that, and enough to multiply
  bool wide_tiles = false;         // tiles of more columns than rows, which load less, are faster
  bool few_sums = false;           // short sums: tiles of few, which are stored soon, are faster
  bool has_room = false;           // for copies of rows: `rows` was known when the scratch was made
  Epilogue epilogue;
  Geometry geometry;
  ptrdiff_t pixel;     // elements from one column of the input to the next
  const float* zeros;  // a run of zeros for all groups; a matrix needs none
  void* scratch;       // product_scratch() bytes
  // Of a convolution over several images, side by side in channels: each tap is so many runs.
  const InputPart* parts = nullptr;
  ptrdiff_t part_count = 1;
  // Memory that is written next, of rows like those of the output, to be asked for meanwhile; or null.
  const float* asked = nullptr;
  ptrdiff_t asked_pitch = 0;
};

// A convolution of one group over images of few channels.
struct FewChannels {
  const float* input;
  const float* packed;  // panels, as of Product
  float* output;
  ptrdiff_t channels, outputs;
  bool planar;                    // the input's channels lie one after the other, not pixel by pixel
  bool wide_tiles;                // as of Product
  bool tall_tiles;                // of one vector of columns, whose products read the input, are faster
  ptrdiff_t first_row, last_row;  // of batch * out_height
  Epilogue epilogue;
  Geometry geometry;
  void* scratch;  // few_channels_scratch() bytes
};

// Rows and columns of outputs that few_channels_tiles() computes at once. Its first_row and last_row are rows
// of such tiles: there are batch * out_height / kFewChannelsTile, each image's rounded up.
constexpr int kFewChannelsTile = 3;

// A convolution whose every channel has a window of its own, or several for as many outputs.
struct Depthwise {
  const float* input;
  const float* packed;  // biases [channels], then [tap][channels], channels padded to kPanel
  float* output;
  ptrdiff_t channels;        // of the output
  ptrdiff_t multiplier = 1;  // of them to a channel of the input
  ptrdiff_t pixel = 0;       // elements from column to column of the input, where those are not its channels
  ptrdiff_t first_row, last_row;          // of batch * out_height
  ptrdiff_t first_channel, last_channel;  // the first a multiple of kPanel
  Epilogue epilogue;
  Geometry geometry;
  bool fetches_results;  // asks for the lines of memory that it will write
  float* tile;           // depthwise_scratch() bytes, whole lines of the cache, or null
};

// A convolution, of 1x1 or of an image of few channels, and depthwise windows over its result.
struct Expansion {
  const float* input;                // pixels, one after the other; unless `few` says what is read
  const float* packed;               // panels, as of Product
  ptrdiff_t steps;                   // of a sum: the channels of a pixel, or those of all taps
  Epilogue epilogue;                 // of the first convolution, without a residual
  Depthwise windows;                 // whose input it makes
  bool wide_tiles;                   // as of Product
  bool tall_tiles;                   // as of FewChannels
  bool asks;                         // for memory of results
  float* scratch;                    // expansion_scratch() bytes
  const FewChannels* few = nullptr;  // its input, channels and geometry count
};

// Depthwise windows over frames of videos, by a window that reaches over several of them. Channels and rows
// are those of `image`, its rows of one frame.
struct DepthwiseFrames {
  Depthwise image;
  ptrdiff_t videos, frames, out_frames;   // frames of one video
  ptrdiff_t taps, stride, pad, dilation;  // of the window, in frames
};

// Columns [first, last) of a matrix, and their biases or zeros, as panels of a Product.
struct PackMatrix {
  const float* matrix;
  const float* bias;  // of column 0; may be null
  float* output;
  ptrdiff_t row_pitch, column_pitch;  // elements from k to k + 1, from column to column
  ptrdiff_t depth;
  ptrdiff_t first, last;
};

// Rows times columns [first, last) of a matrix that is read where it lies: its rows are dense, or, for a
// few rows, its columns.
constexpr int kFewRows = 3;
struct PlainProduct {
  const float* input;
  const float* matrix;
  const float* bias;  // may be null
  float* output;
  ptrdiff_t rows, depth;              // at most kFewRows times dense columns
  ptrdiff_t row_pitch, column_pitch;  // of the matrix: one of them is 1
  ptrdiff_t output_pitch;
  ptrdiff_t first, last;
  bool by_lines;  // few rows by a matrix that is to be read line after line, of whatever part this is
};

// A convolution by 3x3 windows, or by rows or columns of taps, with a stride of 1 or 2, through transformed
// weights and tiles: the outputs of panels [first_panel, last_panel) for a block of tiles.
struct Winograd {
  const InputPart* parts;  // of part_channels each
  ptrdiff_t part_channels, part_count;
  const void* packed;  // panels of all taps, as of Product
  Format format;
  float* output;
  float* weights;  // of panels [first_made, last_made), transformed; null: made when they are needed
  ptrdiff_t first_made, last_made;
  float* tiles;  // of the block, transformed: tiles_size() bytes
  ptrdiff_t batch, channels, outputs;
  ptrdiff_t output_pitch;  // elements from pixel to pixel
  ptrdiff_t first, last;   // the block
  ptrdiff_t first_panel, last_panel;
  Epilogue epilogue;
  Geometry geometry;
  bool upright;     // `geometry` is of rows, and is to be of columns
  bool wide_tiles;  // as of Product
  bool fetches;     // weights that are to be transformed next
  bool asks;        // for pixels of the next tile, and for memory of outputs
  void* scratch;    // scratch() bytes
};

// Of few, that are computed at once.
constexpr ptrdiff_t kTilesTogether = 4;

// What is done with tiles of one size and stride, and what that takes, in products at the speed of a
// direct convolution.
struct WinogradRoutines {
  ptrdiff_t points;      // products of a tile for each weight of a filter
  double pixel;          // the transforms of a tile, for each input and output channel
  double weight;         // the transform of a weight, and reading it
  ptrdiff_t most_tiles;  // of one block among several
  ptrdiff_t few_tiles;   // of so many, or fewer, weights are transformed as they are multiplied
  double few;            // what kTilesTogether of them, or less, take then for each weight
  ptrdiff_t (*tiles)(const Winograd&);
  ptrdiff_t (*filters)(const Winograd&);  // that a window is, side by side
  size_t (*weights_size)(const Winograd&, ptrdiff_t panels);
  size_t (*tiles_size)(const Winograd&);
  void (*transform_weights)(const Winograd&);
  void (*transform_input)(const Winograd&, ptrdiff_t begin, ptrdiff_t end);
  size_t (*scratch)(const Winograd&);
  bool (*compute)(const Winograd&);  // false: an output is not finite, or may not be right
};

// For each output along one axis: input `first` times 1 - rest, and input `second`, the same or the
// next, times rest; or `first` alone. As many as a multiple of kPanel can be read.
struct AxisBlend {
  const int32_t* first;
  const int32_t* second;  // both null: `first` alone
  const float* rest;
};

// Images resampled along both axes, blended or not.
struct Resample {
  const float* input;
  float* output;
  ptrdiff_t pixel;  // elements side by side that are blended alike: all channels, or 1 of a plane
  ptrdiff_t in_height, in_width, out_height, out_width;
  ptrdiff_t first_row, last_row;  // of images or planes * out_height
  AxisBlend rows, columns;
  ptrdiff_t block;  // columns of the output at a time
  float* scratch;   // to blend: two runs of `block` pixels, each rounded up to kPanel elements
};

// One head: softmax(query key^T * scale + mask) value, row-major, pitches in elements.
struct Attention {
  const float* query;
  const float* key;
  const float* value;
  float* output;
  const float* float_mask;   // at most one of the masks is there
  const uint8_t* bool_mask;  // of query i, key j at i * mask_row + j * mask_column
  ptrdiff_t mask_row, mask_column;
  ptrdiff_t queries, keys, width, value_width;
  ptrdiff_t first_query, last_query;  // that this call computes, from block to block of attention_block()
  ptrdiff_t query_pitch, key_pitch, value_pitch, output_pitch;
  float scale;
  float hidden_score;  // of a key that the bool mask hides, if it `fills`; else -inf is added
  float hidden;        // what a query gives all of whose scores are -inf
  bool fills;
  bool causal;      // query i sees keys 0 to i
  bool few;         // keys and values are read where they lie, not laid out first
  bool fresh;       // keys and values are others than at the last call with this scratch
  bool wide_tiles;  // as of Product
  bool tall_tiles;  // as of FewChannels
  void* scratch;    // attention_scratch() bytes
};

// Heads of one row, each turned by the row's angles: x * cosine + turned(x) * sine, where
// turned(x) is the second half of a head, negated, and then its first.
struct Rotary {
  const float* input;
  const float* cosine;
  const float* sine;
  float* output;
  ptrdiff_t heads, width;             // an even width
  ptrdiff_t input_step, output_step;  // elements from head to head
};

// Steps of an LSTM, or of a GRU where `cell` is null, for the units [first_unit, last_unit) of
// some rows of a batch. What an element is depends on no other row or unit of the call.
struct Recurrent {
  const float* given;    // the input's part of the gates, of the first step: [row][gate][unit]
  const float* packed;   // the state's part: pack_recurrent() of it, or null,
  const float* weights;  // [gate][unit][hidden], and
  const float* bias;     // [gate][unit]; may be null
  const float* state;    // before the first step
  float* cell;           // [row][unit], before and after
  float* output;         // of the first step, and the state before the second
  ptrdiff_t steps, rows, hidden;
  ptrdiff_t given_step, given_row, state_row, output_step, output_row;  // pitches, in elements
  ptrdiff_t first_unit, last_unit;                                      // the first a multiple of kPanel
};

// Weights of [gate][unit][hidden] as they are read by the step: blocks of a vector of units, with
// all their gates.
struct PackRecurrent {
  const float* weights;
  const float* bias;  // [gate][unit]; may be null
  float* output;      // of unit 0; gates * round_up(hidden, kPanel) * (1 + hidden) elements in all
  ptrdiff_t gates, hidden;
  ptrdiff_t first_unit, last_unit;  // the first a multiple of kPanel
};

// Rows [first_row, last_row) of `count` elements: (x - mean) / sqrt(variance + eps) * weight + bias.
struct NormRows {
  const float* input;
  const float* weight;  // may be null, as may all below but `output`
  const float* bias;
  float* output;
  float* means;  // of each row
  float* rstds;
  ptrdiff_t count, first_row, last_row;
  double eps;
  bool centered;  // false: the mean is taken as zero, and there is no bias
};

// The mean of some numbers, and the sum of the squares of how far each is from it.
struct Moments {
  double mean, squares;
};

// Channels, or one row of several pixels' channels, that the scratch of pixels has room for.
constexpr ptrdiff_t room_of_group_norm(ptrdiff_t channels) {
  return channels >= 64 ? channels + kPanel : 64 * kPanel;
}

// Groups of `channels` channels of `pixels` pixels: (x - mean) / sqrt(variance + eps) * weight + bias,
// with a weight and a bias for each channel.
struct GroupNorm {
  const float* input;
  const float* weight;  // may be null, as may the bias
  const float* bias;
  float* output;
  float* means;  // of each group of each image: what norm_groups() reads
  float* rstds;
  ptrdiff_t groups, channels, pixels;  // of each image, of each group, of each channel
  bool planar;                         // else all channels of a pixel lie side by side
  ptrdiff_t part;                      // planar: elements of a group; else pixels of an image
  ptrdiff_t first, last;               // parts of all groups, or of all images
  Moments* moments;                    // what group_moments() gives of these parts; of pixels, of each group
  void* scratch;  // of pixels: a double and a float for so many as there is room for, or three floats
};

// Columns that are reduced at once.
constexpr ptrdiff_t kReducedColumns = 64;

// Elements [outer][count][inner], over `count`. A part is kReducedColumns of the inner ones, or what is left.
struct Softmax {
  const float* input;
  float* output;
  ptrdiff_t count, inner;
  ptrdiff_t first, last;  // parts
  bool logarithm;
};

// Where the elements of lines lie, in floats.
struct Lines {
  ptrdiff_t block;  // from block to block
  ptrdiff_t line;   // from line to line of a block
  ptrdiff_t step;   // from element to element of a line
};

// Lines that a part of a Fourier has, of one block; and the largest prime factor of a length that is
// not done by convolution.
constexpr ptrdiff_t kFourierLines = 16;
constexpr ptrdiff_t kLargestFactor = 127;

// Discrete Fourier transforms of `lines` lines of each block, complex to complex but where said. What
// a line gives depends on no other line.
struct Fourier {
  const float* input;
  float* output;
  Lines from, to;
  ptrdiff_t lines;
  ptrdiff_t first, last;          // parts: kFourierLines lines of a block, or what is left
  ptrdiff_t length;               // points that are transformed
  ptrdiff_t in_count, out_count;  // elements of a line that are read and written
  bool real_in, real_out;         // at most one of them
  bool packed;  // real elements as half as many points, two as the real and the imaginary part of one
  bool backward;
  float scale;         // of the result
  const float* roots;  // e ^ (-2 pi i k / length), as pairs; where `packed`, of k / (2 length)
  // With them point k of a result is multiplied by line / (blocks' length) turns as often as k says:
  const double* turn_re;  // of each line of a block, up to a multiple of kPanel; null: it is not
  const double* turn_im;
  // A length with a larger prime factor is a convolution with a chirp, of `padded` points.
  const float* chirp;   // e ^ (-pi i k^2 / length), as pairs; null: it is not
  const float* filter;  // the transform of its conjugate, divided by `padded`
  const float* padded_roots;
  ptrdiff_t padded;
  float *scratch, *spare;  // (2 * points + kPastPoints) * kPanel floats each, of as many points as any of
                           // the above
};
constexpr ptrdiff_t kPastPoints = 2 * kPanel;

// Between the halves of a real line's symmetric spectrum, [0, half], and the transform of the line as
// `half` complex elements.
struct Fold {
  const float* input;
  float* output;
  ptrdiff_t from, to;  // from line to line, in floats
  ptrdiff_t half;      // at least twice kPanel
  ptrdiff_t first, last;
  bool join;              // from the spectrum; else to it
  float scale;            // of the result
  const double* turn_re;  // cosine and negative sine of k / (2 half) turns, k up to kPanel
  const double* turn_im;
};

// Norm: the root of the sum of squares. Present: the sum of what is no NaN. Variance: the sum of squares
// about the mean, divided. Deviation: the root of that.
enum class Reduction : uint8_t { Sum, Mean, Norm, Present, Product, Greatest, Least, Variance, Deviation };

// Elements [outer][count][inner], each of the outer and inner ones reduced over `count`.
struct Reduce {
  const float* input;
  float* output;
  ptrdiff_t outer, count, inner;
  ptrdiff_t first, last;                // of the outer ones
  ptrdiff_t first_column, last_column;  // of the inner ones
  Reduction reduction;
  double divisor;  // of squares about the mean
  float* means;    // of what has a variance; may be null
};

// Elements of 16 bits as float32, and the other way round, rounded to the nearest.
struct Widen {
  const uint16_t* input;
  float* output;
  ptrdiff_t count;
  Format format;
};
struct Narrow {
  const float* input;
  uint16_t* output;
  ptrdiff_t count;
  Format format;
};

// Panels of weights, each row of which is multiplied by a number of its own, but not the biases.
struct ScalePanels {
  const void* packed;  // as of Product, of one tap
  Format format;
  const float* factors;  // depth
  float* output;         // panels of float32
  ptrdiff_t depth, panels;
};

// The geometry and pitches of `rows` rows of a matrix, `pitch` elements apart, times panels
// for `outputs` columns. Pointers, and what finishes the sums, are the caller's.
__attribute__((always_inline)) static inline Product over_matrix(ptrdiff_t rows, ptrdiff_t depth,
                                                                 ptrdiff_t pitch, ptrdiff_t outputs,
                                                                 ptrdiff_t output_pitch) {
  Product p;  // clearing all of it first takes a tenth of a small product's time
  p.input = p.zeros = nullptr;
  p.packed = nullptr;
  p.output = nullptr;
  p.output_pitch = output_pitch;
  p.outputs = outputs;
  p.channels = depth;
  p.first_row = p.first_panel = 0;
  p.rows = p.last_row = rows;
  p.last_panel = (outputs + kPanel - 1) / kPanel;
  p.epilogue = {nullptr, Activation::None, 0.0f, 0.0f};
  p.scratch = nullptr;
  p.geometry = {1, rows, 1, rows, 1, 1, 1, 1, 0, 0, 1, 1};
  p.pixel = pitch;
  return p;
}

// The first `count` of each row, greatest or least first, and their places in it.
struct TopK {
  const float* input;
  float* values;
  int64_t* indices;
  ptrdiff_t length, count;  // of a row
  bool greatest;
  ptrdiff_t first, last;  // rows
  int64_t* scratch;       // count
};

// Numbers of a counter-based generator: those of pairs [first, last) of the `count` elements.
struct Draw {
  uint64_t seed, call;
  float* output;
  ptrdiff_t count, first, last;
  bool normal;  // of the standard normal distribution, not of [0, 1)
  double start, scale;
};

struct MaxPool;  // pool.h
struct MaxPlaces;
struct AveragePool;
struct Elementwise;  // elements.h
struct NumberStep;   // numbers.h
struct NumberConversion;
struct NumberRows;
struct GridSample;  // grid_sample.h
struct BagsOfRows;  // bags.h
struct Running;     // running.h

struct Routines {
  ptrdiff_t tile_rows;    // of a product; parts of a multiple of these leave no tile unfilled
  ptrdiff_t few_outputs;  // most outputs of a product by vectors of channels; 0: there is no code for it
  size_t (*product_scratch)(const Product&);  // of fewer rows no more; of fewer outputs there may be
  void (*product)(const Product&);
  void (*short_product)(const Product&);  // of weights that are not float32
  size_t (*split_scratch)(const Product&);
  void (*split_product)(const Product&);  // of one group, by a matrix unit; may be null
  size_t (*strassen_scratch)(const Product&);
  void (*strassen)(const Product&);  // with seven multiplications of blocks for eight; may be null
  size_t (*few_channels_scratch)(const FewChannels&);
  void (*few_channels)(const FewChannels&);
  // By tiles of transformed products, for which a convolution of 0 bytes has the wrong windows; false: an
  // output is not finite, or may not be right.
  size_t (*few_channels_tiles_scratch)(const FewChannels&);
  bool (*few_channels_tiles)(const FewChannels&);
  size_t (*depthwise_scratch)(const Depthwise&);
  void (*depthwise)(const Depthwise&);
  size_t (*expansion_scratch)(const Expansion&);  // 0: there is no code for it
  void (*expand_depthwise)(const Expansion&);     // panel by panel; null in small builds
  size_t (*depthwise_frames_scratch)(const DepthwiseFrames&);
  void (*depthwise_frames)(const DepthwiseFrames&);
  ptrdiff_t (*attention_block)(const Attention&);
  size_t (*attention_scratch)(const Attention&);
  void (*attention)(const Attention&);
  void (*max_pool)(const MaxPool&);
  void (*max_places)(const MaxPlaces&);
  void (*average_pool)(const AveragePool&);
  void (*resample)(const Resample&);
  void (*pack_matrix)(const PackMatrix&);
  void (*plain_product)(const PlainProduct&);
  void (*norm_rows)(const NormRows&);
  void (*group_moments)(const GroupNorm&);
  void (*norm_groups)(const GroupNorm&);
  void (*rotary)(const Rotary&);
  void (*pack_recurrent)(const PackRecurrent&);
  void (*recurrent)(const Recurrent&);
  void (*softmax)(const Softmax&);
  void (*reduce)(const Reduce&);
  void (*running)(const Running&);
  void (*fourier)(const Fourier&);
  void (*fold)(const Fold&);
  void (*widen)(const Widen&);
  void (*narrow)(const Narrow&);
  void (*scale_panels)(const ScalePanels&);
  void (*numbers)(const NumberStep&);
  void (*convert_numbers)(const NumberConversion&);
  void (*fold_number_rows)(const NumberRows&);
  void (*elementwise)(const Elementwise&);
  void (*grid_sample)(const GridSample&);
  void (*top_k)(const TopK&);
  void (*random)(const Draw&);
  const DenseLoops* dense;  // of linear algebra
  void (*reduce_bags)(const BagsOfRows&);
  // Tiles of so many outputs, of windows of three taps along an axis or of so many.
  const WinogradRoutines *winograd_4x4, *winograd_2x2, *winograd_4, *winograd_4_of_5, *winograd_4_of_7;
  const WinogradRoutines *strided_winograd_4x4, *strided_winograd_2x2, *strided_winograd_4;
};

}  // namespace penlight::optimized
