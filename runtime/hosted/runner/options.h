// The runner's command line.
#pragma once

#include "array.h"
#include "hosted/heap.h"

namespace penlight::runner {

struct GivenInput {
  const char* text;  // a .npy file or a number
};

struct GivenSizes {
  size_t input;
  size_t dim;
  dim_t sizes[kMaxDim];
};

struct RunnerOptions {
  const char* program = nullptr;
  const char* method = nullptr;
  const char* libraries = nullptr;
  hosted::Array<const char*> plugins;
  const char* save = nullptr;  // prefix of output files
  hosted::Array<const char*> data;
  hosted::Array<GivenInput> inputs;
  hosted::Array<GivenSizes> sizes;
  Fill fill = Fill::Random;
  uint64_t seed = 0;
  size_t repeats = 1;
  size_t warm_up = 0;
  size_t threads = 0;
  uint64_t max_jumps = UINT64_MAX;
  bool json = false;
  bool list = false;
  bool map = true;
  bool times = false;
  bool help = false;
};

extern const char* const kUsage;

// False, with the mistake in `message`, when the line is wrong.
bool parse_options(int count, char** arguments, RunnerOptions& options, Message& message);

}  // namespace penlight::runner
