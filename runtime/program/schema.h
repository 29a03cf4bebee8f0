// Field numbers of the program format, as schema/program.fbs declares them.
#pragma once

#include <stdint.h>

namespace penlight::schema {

namespace program {
enum : unsigned {
  kVersion = 0,
  kPlans = 1,
  kDelegateData = 3,
  kSegments = 4,
  kConstantSegment = 5,
  kMutableSegments = 6,
  kNamedData = 7,
};
}
namespace plan {
enum : unsigned {
  kName = 0,
  kContainer = 1,
  kValues = 2,
  kInputs = 3,
  kOutputs = 4,
  kChains = 5,
  kOperators = 6,
  kDelegates = 7,
  kArenaSizes = 8,
};
}
namespace container {
enum : unsigned { kInputs = 0, kOutputs = 1 };
}
namespace value {
enum : unsigned { kType = 0, kContent = 1 };
enum Type : uint8_t {
  None = 0,
  Null = 1,
  Int = 2,
  Bool = 3,
  Double = 4,
  Tensor = 5,
  String = 6,
  IntList = 7,
  DoubleList = 8,
  BoolList = 9,
  TensorList = 10,
  OptionalTensorList = 11,
};
}  // namespace value
namespace tensor {
enum : unsigned {
  kScalarType = 0,
  kStorageOffset = 1,
  kSizes = 2,
  kDimOrder = 3,
  kDataIndex = 5,
  kAllocation = 6,
  kLayout = 7,
  kDynamism = 8,
  kExtra = 9,
};
}
namespace allocation {
enum : unsigned { kMemoryId = 0, kOffsetLow = 1, kOffsetHigh = 2 };
}
namespace extra {
enum : unsigned { kName = 1, kLocation = 2 };
}
namespace op {
enum : unsigned { kName = 0, kOverload = 1 };
}
namespace chain {
enum : unsigned { kInstructions = 2 };
}
namespace instruction {
enum : unsigned { kType = 0, kContent = 1 };
enum Type : uint8_t { Kernel = 1, Delegate = 2, Move = 3, JumpFalse = 4, Free = 5 };
}  // namespace instruction
// KernelCall, DelegateCall, MoveCall, JumpFalseCall: what, then with what.
namespace call {
enum : unsigned { kIndex = 0, kArgs = 1, kTo = 1 };
}
namespace delegate {
enum : unsigned { kId = 0, kProcessed = 1, kSpecs = 2 };
}
namespace reference {
enum : unsigned { kLocation = 0, kIndex = 1 };
}
namespace spec {
enum : unsigned { kKey = 0, kValue = 1 };
}
namespace inline_data {
enum : unsigned { kData = 0 };
}
namespace segment {
enum : unsigned { kOffset = 0, kSize = 1 };
}
namespace subsegments {
enum : unsigned { kSegment = 0, kOffsets = 1 };
}
namespace named {
enum : unsigned { kKey = 0, kSegment = 1, kLayout = 2 };
}
namespace tensor_layout {
enum : unsigned { kScalarType = 0, kSizes = 1, kDimOrder = 2 };
}
namespace flat_tensor {
enum : unsigned { kVersion = 0, kSegments = 1, kNamedData = 2 };
}

}  // namespace penlight::schema
