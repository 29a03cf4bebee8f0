// The routines of one instruction set.
#include "routines.h"
#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

size_t product_scratch(const Product& product);
void product(const Product& product);
void depthwise(const Depthwise& convolution);
size_t attention_scratch(const Attention& attention);
void attention(const Attention& attention);
void max_pool(const MaxPool& pool);

#define PENLIGHT_TEXT(name) #name
#define PENLIGHT_NAME_OF(name) PENLIGHT_TEXT(name)
extern const Routines routines;
const Routines routines = {
    PENLIGHT_NAME_OF(PENLIGHT_ISA),
    product_scratch,
    product,
    depthwise,
    attention_scratch,
    attention,
    max_pool,
};

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
