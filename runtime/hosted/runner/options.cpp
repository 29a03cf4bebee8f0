#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

namespace penlight::runner {

const char* const kUsage =
    "usage: penlight-runner PROGRAM.pte [options]\n"
    "\n"
    "Loads a program, runs a method and prints what it gives.\n"
    "\n"
    "  -m, --method NAME       method to run; `forward` or the only one when left out\n"
    "  -i, --input FILE.npy    next input, or a number for one that is a number; repeat\n"
    "      --random | --ones | --zeros   fill inputs that are not given (random)\n"
    "      --seed N            of random numbers (0)\n"
    "      --sizes I=2,3,4     sizes of input I where they are dynamic; repeat\n"
    "  -o, --output PREFIX     save output K to PREFIX.K.npy\n"
    "  -n, --repeats N         run N times and print times (1)\n"
    "      --warm-up N         runs before those (0)\n"
    "      --times             time of each instruction\n"
    "      --data FILE.ptd     weights outside the program; repeat\n"
    "      --libraries A,B     kernel libraries to ask, in this order\n"
    "      --library FILE.so   plug-in with operators of your own; repeat\n"
    "      --threads N         for kernels (one on each physical core)\n"
    "      --max-jumps N       stop a run after N backward jumps\n"
    "      --read              read the file in parts instead of mapping it\n"
    "      --list              print the methods and what they take, run nothing\n"
    "      --json              print JSON\n"
    "  -h, --help\n";

namespace {

bool parse_number(const char* text, uint64_t& number) {
  char* end = nullptr;
  errno = 0;
  const unsigned long long parsed = strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end || errno) return false;
  number = parsed;
  return true;
}

bool parse_sizes(const char* text, GivenSizes& sizes) {
  char* end = nullptr;
  sizes.input = strtoul(text, &end, 10);
  if (end == text || *end != '=') return false;
  sizes.dim = 0;
  for (const char* at = end + 1; *at;) {
    const long long size = strtoll(at, &end, 10);
    if (end == at || size < 0 || sizes.dim == kMaxDim || (*end && *end != ',')) return false;
    sizes.sizes[sizes.dim++] = static_cast<dim_t>(size);
    at = *end ? end + 1 : end;
  }
  return true;
}

// Takes an option that has a value; -1 when it is not one, 0 when the value is wrong.
int take_value(const char* name, const char* value, RunnerOptions& options) {
  const auto is = [name](const char* shortened, const char* full) {
    return strcmp(name, full) == 0 || (shortened && strcmp(name, shortened) == 0);
  };
  uint64_t number = 0;
  if (is("-m", "--method")) return options.method = value, 1;
  if (is("-o", "--output")) return options.save = value, 1;
  if (is(nullptr, "--libraries")) return options.libraries = value, 1;
  if (is(nullptr, "--library")) return options.plugins.push(value);
  if (is(nullptr, "--data")) return options.data.push(value);
  if (is("-i", "--input")) return options.inputs.push({value});
  if (is(nullptr, "--sizes")) {
    GivenSizes sizes;
    return parse_sizes(value, sizes) && options.sizes.push(sizes);
  }
  if (is(nullptr, "--seed")) return parse_number(value, options.seed);
  if (is(nullptr, "--max-jumps")) return parse_number(value, options.max_jumps);
  if (is(nullptr, "--threads")) {
    if (!parse_number(value, number) || number == 0) return 0;
    return options.threads = static_cast<size_t>(number), 1;
  }
  if (is("-n", "--repeats") || is(nullptr, "--warm-up")) {
    const bool repeats = is("-n", "--repeats");
    if (!parse_number(value, number) || (repeats && number == 0)) return 0;
    (repeats ? options.repeats : options.warm_up) = static_cast<size_t>(number);
    return 1;
  }
  return -1;
}

bool take_flag(const char* name, RunnerOptions& options) {
  const auto is = [name](const char* full) { return strcmp(name, full) == 0; };
  if (is("--random")) return options.fill = Fill::Random, true;
  if (is("--ones")) return options.fill = Fill::Ones, true;
  if (is("--zeros")) return options.fill = Fill::Zeros, true;
  if (is("--json")) return options.json = true;
  if (is("--list")) return options.list = true;
  if (is("--times")) return options.times = true;
  if (is("--help") || is("-h")) return options.help = true;
  if (is("--read")) return options.map = false, true;
  return false;
}

}  // namespace

bool parse_options(int count, char** arguments, RunnerOptions& options, Message& message) {
  for (int i = 1; i < count; ++i) {
    const char* name = arguments[i];
    if (name[0] != '-' || !name[1]) {
      if (options.program) {
        message.set("one program at a time: {} and {} were given", options.program, name);
        return false;
      }
      options.program = name;
      continue;
    }
    if (take_flag(name, options)) continue;
    const char* value = i + 1 < count ? arguments[i + 1] : nullptr;
    const int taken = take_value(name, value ? value : "", options);
    if (taken < 0) {
      message.set("there is no option {}", name);
      return false;
    }
    if (!value || taken == 0) {
      message.set(value ? "option {} cannot be {}" : "option {} needs a value", name, value);
      return false;
    }
    ++i;
  }
  if (!options.program && !options.help) message.set("a program file is needed");
  return options.program || options.help;
}

}  // namespace penlight::runner
