// Jobs of vector/pool.cpp and vector/pool_places.cpp.
#pragma once

#include "routines.h"

namespace penlight::optimized {

// The third axis of volumes, outside of the two of a Geometry; of images it has one place.
struct Depth {
  ptrdiff_t size = 1, out = 1;  // of the input, of the output
  ptrdiff_t taps = 1, stride = 1, pad = 0, dilation = 1;
};

// The largest of each window of images.
struct MaxPool {
  const float* input;
  float* output;
  ptrdiff_t pixel;                // elements side by side: all channels, or 1 of a plane
  ptrdiff_t first_row, last_row;  // of images or planes * out_height
  Geometry geometry;
  float* line;          // of planes: one row of maxima, with the least of all numbers around it
  ptrdiff_t line_size;  // as of AveragePool
};

// The largest of each window and its place, counted in the image or volume.
struct MaxPlaces {
  const float* input;
  float* output;
  int64_t* places;
  ptrdiff_t pixel;                // as of MaxPool; volumes are planes
  ptrdiff_t first_row, last_row;  // of images or planes * out depth * out_height
  Geometry geometry;              // depth * height * width fits 32 bits
  Depth depth;
  const int32_t* columns;  // of planes: the first column inside of each window along a row,
  float* line;             // one row of the input, with the least of all numbers around it, and
  ptrdiff_t line_size;     //
  float* most;             // the maxima of one row of the output and their places, as many as a multiple of
  int32_t* at;             // kPanel
};

// The mean of each window.
struct AveragePool {
  const float* input;
  float* output;
  ptrdiff_t pixel;                // as of MaxPlaces
  ptrdiff_t first_row, last_row;  // of images or planes * out depth * out_height
  Geometry geometry;              // without dilation
  Depth depth;
  bool count_padding;
  // Of windows that part the input evenly, each from first to last * size / out, rounded outwards: where they
  // begin in a row, and the most columns that one has. Else null: taps, strides and padding say it.
  const int32_t* columns;
  ptrdiff_t most_columns;
  const float* sizes;   // of the windows along a row; as many as a multiple of kPanel can be read, as above
  float divisor;        // instead of a window's size, if it is not 0
  float* line;          // one row of sums, with zeros around it
  ptrdiff_t line_size;  // elements, rounded up so that windows of kPanel columns past the last fit
};

}  // namespace penlight::optimized
