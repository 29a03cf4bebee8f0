#include "report.h"

#include <math.h>

#include "array.h"

namespace penlight::runner {

namespace {

void print_sizes(const int32_t* sizes, size_t dim, const char* bound) {
  printf("[");
  for (size_t d = 0; d < dim; ++d) printf("%s%s%d", d ? ", " : "", bound, sizes[d]);
  printf("]");
}

void print_json_number(double value, int digits) {
  if (isfinite(value)) {
    printf("%.*g", digits, value);
  } else {
    printf("\"%s\"", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");  // JSON has no such numbers
  }
}

// Whole numbers in full; floats to six digits for people, to all they have as JSON.
void print_number(double value, ScalarType dtype, bool json) {
  const bool whole = dtype == ScalarType::Bool || is_integral(dtype);
  const int digits = whole || (json && dtype == ScalarType::Double) ? 17 : json ? 9 : 6;
  if (json) {
    print_json_number(value, digits);
  } else {
    printf("%.*g", digits, value);
  }
}

void print_element(const HostArray& array, size_t index, bool json) {
  const void* data = array.bytes.data();
  if (array.dtype == ScalarType::Long) {
    printf("%lld", static_cast<long long>(static_cast<const int64_t*>(data)[index]));
  } else if (array.dtype == ScalarType::UInt64) {
    printf("%llu", static_cast<unsigned long long>(static_cast<const uint64_t*>(data)[index]));
  } else if (is_complex(array.dtype)) {
    const ScalarType part = part_of(array.dtype);
    const double imaginary = element(data, part, 2 * index + 1);
    if (json) printf("[");
    print_number(element(data, part, 2 * index), part, json);
    printf(json ? ", " : signbit(imaginary) ? "" : "+");
    print_number(imaginary, part, json);
    printf(json ? "]" : "j");
  } else {
    print_number(element(data, array.dtype, index), array.dtype, json);
  }
}

void print_end(const MethodMeta& meta, bool input, size_t index, bool json) {
  TensorInfo info;
  const Tag tag = input ? meta.input_tag(index) : meta.output_tag(index);
  const Status status = input ? meta.input_tensor(index, info) : meta.output_tensor(index, info);
  if (status != Status::Ok) {
    printf(json ? "{\"type\": \"%s\"}" : "%s", tag_name(tag));
    return;
  }
  const bool dynamic = info.dynamism != Dynamism::Static;
  if (!json) {
    printf("%s ", dtype_name(info.dtype));
    print_sizes(info.sizes, info.dim, dynamic ? "<=" : "");
    return;
  }
  printf("{\"type\": \"tensor\", \"dtype\": \"%s\", \"dynamic\": %s, \"sizes\": ", dtype_name(info.dtype),
         dynamic ? "true" : "false");
  print_sizes(info.sizes, info.dim, "");
  printf("}");
}

// Smallest, largest and mean of a tensor's elements, which are not complex.
struct Summary {
  double min = NAN, max = NAN, mean = NAN;
  explicit Summary(const HostArray& array) {
    const size_t count = array.numel();
    double sum = 0;
    for (size_t i = 0; i < count; ++i) {
      const double value = element(array.bytes.data(), array.dtype, i);
      sum += value;
      if (!(value >= min)) min = value;
      if (!(value <= max)) max = value;
    }
    if (count) mean = sum / static_cast<double>(count);
  }
};

void print_summary(const HostArray& array, bool json) {
  if (is_complex(array.dtype)) return;  // they have no order
  const Summary summary(array);
  printf(json ? "\"min\": " : "  min ");
  print_number(summary.min, array.dtype, json);
  printf(json ? ", \"max\": " : "  max ");
  print_number(summary.max, array.dtype, json);
  printf(json ? ", \"mean\": " : "  mean ");
  print_number(summary.mean, is_floating(array.dtype) ? array.dtype : ScalarType::Float, json);
  if (json) printf(", ");
}

void print_tensor(const Tensor& tensor, size_t index, bool json) {
  HostArray array;
  if (!copy_output(tensor, array)) return;
  const size_t shown = array.numel() < 6 ? array.numel() : 6;
  if (json) {
    printf("{\"dtype\": \"%s\", \"sizes\": [", dtype_name(array.dtype));
  } else {
    printf("output %zu: %s [", index, dtype_name(array.dtype));
  }
  for (size_t d = 0; d < array.dim; ++d)
    printf("%s%lld", d ? ", " : "", static_cast<long long>(array.sizes[d]));
  printf(json ? "], " : "]");
  print_summary(array, json);
  printf(json ? "\"first\": [" : "  first");
  for (size_t i = 0; i < shown; ++i) {
    printf(!json ? " " : i ? ", " : "");
    print_element(array, i, json);
  }
  printf(json ? "]}" : "\n");
}

}  // namespace

void print_json_string(const char* text) {
  putchar('"');
  for (; text && *text; ++text) {
    const unsigned char c = static_cast<unsigned char>(*text);
    if (c == '"' || c == '\\') {
      printf("\\%c", c);
    } else if (c < 0x20) {
      printf("\\u%04x", c);
    } else {
      putchar(c);
    }
  }
  putchar('"');
}

Status print_methods(Module& module, bool json) {
  if (json) printf("{\"methods\": [");
  for (size_t i = 0; i < module.method_count(); ++i) {
    MethodMeta meta;
    const Status status = module.method_meta(module.method_name(i), meta);
    if (status != Status::Ok) return status;
    if (json) {
      printf("%s{\"name\": ", i ? ", " : "");
      print_json_string(meta.name());
    } else {
      printf("%s\n", meta.name());
    }
    for (int end = 0; end < 2; ++end) {
      const bool input = end == 0;
      const size_t count = input ? meta.input_count() : meta.output_count();
      if (json) printf(", \"%s\": [", input ? "inputs" : "outputs");
      for (size_t k = 0; k < count; ++k) {
        if (json && k) printf(", ");
        if (!json) printf("  %s %zu: ", input ? "input " : "output", k);
        print_end(meta, input, k, json);
        if (!json) printf("\n");
      }
      if (json) printf("]");
    }
    if (json) printf(", \"instructions\": %zu, \"arenas\": [", meta.instruction_count());
    if (!json) printf("  %zu instructions, arenas of", meta.instruction_count());
    for (size_t k = 0; k < meta.arena_count(); ++k) printf(json && k ? ", %zu" : " %zu", meta.arena_size(k));
    printf(json ? "], \"method_bytes\": %zu}" : " bytes, %zu bytes for the method\n", meta.method_bytes());
  }
  if (json) printf("]}\n");
  return Status::Ok;
}

void print_outputs(const Outputs& outputs, bool json) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Value& value = outputs[i];
    if (json && i) printf(", ");
    if (value.tag == Tag::Tensor) {
      print_tensor(value.as_tensor, i, json);
      continue;
    }
    if (!json) printf("output %zu: %s ", i, tag_name(value.tag));
    if (value.tag == Tag::Double) {
      if (json) {
        print_json_number(value.as_double, 17);
      } else {
        printf("%.17g", value.as_double);
      }
    } else if (value.tag == Tag::Int) {
      printf("%lld", static_cast<long long>(value.as_int));
    } else if (value.tag == Tag::Bool) {
      printf(value.as_bool ? "true" : "false");
    } else if (json) {
      printf("null");
    }
    if (!json) printf("\n");
  }
}

void print_times(const Times& times, const Module& module, bool json) {
  if (json) {
    printf(
        "\"load_ms\": %.4f, \"first_ms\": %.4f, \"min_ms\": %.4f, \"median_ms\": %.4f, \"repeats\": %zu, "
        "\"arena_bytes\": %zu, \"method_bytes\": %zu",
        times.load_ms, times.first_ms, times.min_ms, times.median_ms, times.repeats, module.arena_bytes(),
        module.method_bytes());
    return;
  }
  printf("load %.4f ms, first run %.4f ms", times.load_ms, times.first_ms);
  if (times.repeats > 1) {
    printf(", %zu runs: median %.4f ms, fastest %.4f ms", times.repeats, times.median_ms, times.min_ms);
  }
  printf("; arenas %.1f KB, method %.1f KB\n", static_cast<double>(module.arena_bytes()) / 1e3,
         static_cast<double>(module.method_bytes()) / 1e3);
}

void print_instructions(const hosted::Array<InstructionTime>& instructions, bool json) {
  for (size_t i = 0; i < instructions.size(); ++i) {
    const InstructionTime& one = instructions[i];
    const double mean =
        one.runs ? static_cast<double>(one.nanoseconds) / static_cast<double>(one.runs) / 1e3 : 0;
    if (json) {
      printf("%s{\"name\": ", i ? ", " : "");
      print_json_string(one.name);
      printf(", \"mean_us\": %.3f, \"runs\": %llu}", mean, static_cast<unsigned long long>(one.runs));
    } else {
      printf("%5zu %12.2f us  x%-6llu %s\n", i, mean, static_cast<unsigned long long>(one.runs), one.name);
    }
  }
}

}  // namespace penlight::runner
