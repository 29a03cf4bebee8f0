// The routines of one instruction set.
#include "routines.h"
#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

size_t product_scratch(const Product& product);
void product(const Product& product);
void short_product(const Product& product);
size_t split_scratch(const Product& product);
void split_product(const Product& product);
size_t strassen_scratch(const Product& product);
void strassen(const Product& product);
size_t few_channels_scratch(const FewChannels& convolution);
void few_channels(const FewChannels& convolution);
size_t few_channels_tiles_scratch(const FewChannels& convolution);
bool few_channels_tiles(const FewChannels& convolution);
size_t depthwise_scratch(const Depthwise& convolution);
void depthwise(const Depthwise& convolution);
size_t expansion_scratch(const Expansion& expansion);
void expand_depthwise(const Expansion& expansion);
size_t depthwise_frames_scratch(const DepthwiseFrames& convolution);
void depthwise_frames(const DepthwiseFrames& convolution);
ptrdiff_t attention_block(const Attention& attention);
size_t attention_scratch(const Attention& attention);
void attention(const Attention& attention);
void max_pool(const MaxPool& pool);
void max_places(const MaxPlaces& pool);
void resample(const Resample& images);
void average_pool(const AveragePool& pool);
void pack_matrix(const PackMatrix& matrix);
void plain_product(const PlainProduct& product);
void norm_rows(const NormRows& rows);
void group_moments(const GroupNorm& groups);
void norm_groups(const GroupNorm& groups);
void softmax(const Softmax& run);
void reduce(const Reduce& run);
void running(const Running& run);
void fourier(const Fourier& lines);
void fold(const Fold& lines);
void widen(const Widen& run);
void narrow(const Narrow& run);
void scale_panels(const ScalePanels& panels);
void numbers(const NumberStep& step);
void convert_numbers(const NumberConversion& run);
void fold_number_rows(const NumberRows& rows);
void rotary(const Rotary& heads);
void pack_recurrent(const PackRecurrent& weights);
void recurrent(const Recurrent& steps);
void elementwise(const Elementwise& elements);
void grid_sample(const GridSample& samples);
void top_k(const TopK& rows);
void random(const Draw& draw);
extern const DenseLoops dense;
void reduce_bags(const BagsOfRows& bags);
extern const WinogradRoutines winograd_4x4, winograd_2x2, winograd_4, winograd_4_of_5, winograd_4_of_7;
extern const WinogradRoutines strided_winograd_4x4, strided_winograd_2x2, strided_winograd_4;

// A selective build leaves out what no kernel of its programs calls, and where size counts strassen(),
// winograd(), few_channels_tiles() and expand_depthwise(): their places in the table are null then, and
// kernels ask before.
#if defined(PENLIGHT_WITHOUT_PRODUCT)
#define product_scratch nullptr
#define product nullptr
#endif
#if defined(PENLIGHT_WITHOUT_SHORT_PRODUCT)
#define short_product nullptr
#endif
#if defined(PENLIGHT_WITHOUT_SPLIT_PRODUCT) || !defined(PENLIGHT_HAS_AMX) || !defined(__AVX512F__)
#define split_scratch nullptr
#define split_product nullptr
#endif
#if defined(PENLIGHT_WITHOUT_STRASSEN) || !defined(__AVX512F__)
#define strassen_scratch nullptr
#define strassen nullptr
#endif
#if defined(PENLIGHT_WITHOUT_FEW_CHANNELS)
#define few_channels_scratch nullptr
#define few_channels nullptr
#endif
#if defined(PENLIGHT_WITHOUT_FEW_CHANNELS_TILES)
#define few_channels_tiles_scratch nullptr
#define few_channels_tiles nullptr
#endif
#if defined(PENLIGHT_WITHOUT_DEPTHWISE)
#define depthwise nullptr
#define depthwise_scratch nullptr
#endif
#if defined(PENLIGHT_WITHOUT_EXPANSION)
#define expansion_scratch nullptr
#define expand_depthwise nullptr
#endif
#if defined(PENLIGHT_WITHOUT_DEPTHWISE_FRAMES)
#define depthwise_frames nullptr
#define depthwise_frames_scratch nullptr
#endif
#if defined(PENLIGHT_WITHOUT_ATTENTION)
#define attention_block nullptr
#define attention_scratch nullptr
#define attention nullptr
#endif
#if defined(PENLIGHT_WITHOUT_SCALE_PANELS)
#define scale_panels nullptr
#endif
#if defined(PENLIGHT_WITHOUT_POOL)
#define max_pool nullptr
#define average_pool nullptr
#endif
#if defined(PENLIGHT_WITHOUT_POOL_PLACES)
#define max_places nullptr
#endif
#if defined(PENLIGHT_WITHOUT_UPSAMPLE)
#define resample nullptr
#endif
#if defined(PENLIGHT_WITHOUT_MATRIX)
#define pack_matrix nullptr
#define plain_product nullptr
#endif
#if defined(PENLIGHT_WITHOUT_ROWS)
#define norm_rows nullptr
#endif
#if defined(PENLIGHT_WITHOUT_SOFTMAX)
#define softmax nullptr
#endif
#if defined(PENLIGHT_WITHOUT_REDUCE)
#define reduce nullptr
#endif
#if defined(PENLIGHT_WITHOUT_RUNNING)
#define running nullptr
#endif
#if defined(PENLIGHT_WITHOUT_FFT)
#define fourier nullptr
#define fold nullptr
#endif
#if defined(PENLIGHT_WITHOUT_CONVERT)
#define widen nullptr
#define narrow nullptr
#endif
#if defined(PENLIGHT_WITHOUT_NUMBERS)
#define numbers nullptr
#define convert_numbers nullptr
#define fold_number_rows nullptr
#endif
#if defined(PENLIGHT_WITHOUT_GROUPS)
#define group_moments nullptr
#define norm_groups nullptr
#endif
#if defined(PENLIGHT_WITHOUT_ROTARY)
#define rotary nullptr
#endif
#if defined(PENLIGHT_WITHOUT_RECURRENT)
#define pack_recurrent nullptr
#define recurrent nullptr
#endif
#if defined(PENLIGHT_WITHOUT_ELEMENTWISE)
#define elementwise nullptr
#endif
#if defined(PENLIGHT_WITHOUT_GRID_SAMPLE)
#define grid_sample nullptr
#endif
#if defined(PENLIGHT_WITHOUT_TOPK)
#define top_k nullptr
#endif
#if defined(PENLIGHT_WITHOUT_RANDOM)
#define random nullptr
#endif
#if defined(PENLIGHT_WITHOUT_DENSE)
#define PENLIGHT_DENSE nullptr
#else
#define PENLIGHT_DENSE &dense
#endif
#if defined(PENLIGHT_WITHOUT_BAGS)
#define reduce_bags nullptr
#endif
#if defined(PENLIGHT_WITHOUT_WINOGRAD)
#define PENLIGHT_WINOGRAD(name) nullptr
#else
#define PENLIGHT_WINOGRAD(name) &name
#endif

extern const Routines routines;
const Routines routines = {
    kTileRows,
    kFewTiles ? 0 : kLanes / 2,
    product_scratch,
    product,
    short_product,
    split_scratch,
    split_product,
    strassen_scratch,
    strassen,
    few_channels_scratch,
    few_channels,
    few_channels_tiles_scratch,
    few_channels_tiles,
    depthwise_scratch,
    depthwise,
    expansion_scratch,
    expand_depthwise,
    depthwise_frames_scratch,
    depthwise_frames,
    attention_block,
    attention_scratch,
    attention,
    max_pool,
    max_places,
    average_pool,
    resample,
    pack_matrix,
    plain_product,
    norm_rows,
    group_moments,
    norm_groups,
    rotary,
    pack_recurrent,
    recurrent,
    softmax,
    reduce,
    running,
    fourier,
    fold,
    widen,
    narrow,
    scale_panels,
    numbers,
    convert_numbers,
    fold_number_rows,
    elementwise,
    grid_sample,
    top_k,
    random,
    PENLIGHT_DENSE,
    reduce_bags,
    PENLIGHT_WINOGRAD(winograd_4x4),
    PENLIGHT_WINOGRAD(winograd_2x2),
    PENLIGHT_WINOGRAD(winograd_4),
    PENLIGHT_WINOGRAD(winograd_4_of_5),
    PENLIGHT_WINOGRAD(winograd_4_of_7),
    PENLIGHT_WINOGRAD(strided_winograd_4x4),
    PENLIGHT_WINOGRAD(strided_winograd_2x2),
    PENLIGHT_WINOGRAD(strided_winograd_4),
};

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
