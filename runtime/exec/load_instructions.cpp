// Instructions of a method: each with its kernel, its arguments checked against what that takes.
#include <string.h>

#include "exec/method_loader.h"
#include "exec/prims.h"
#include "kernel/key.h"
#include "kernel/signature.h"
#include "program/schema.h"

namespace penlight {

using flatbuffer::Table;
using flatbuffer::Vector;

Status MethodLoader::load_instructions() {
  using namespace schema;
  const Vector chains = plan_.vector(plan::kChains, 4);
  if (chains.count == 0) return fail(Status::InvalidProgram, "the method has no chain of instructions");
  if (chains.count > 1)
    return fail(Status::NotSupported, "the method has {} chains, one is supported", chains.count);
  const Vector list = plan_.element(chains, 0).vector(chain::kInstructions, 4);
  Instruction* instructions = carve<Instruction>(list.count);
  if (!measuring_) {
    method_->instructions_ = instructions;
    method_->instruction_count_ = list.count;
  }
  for (size_t i = 0; i < list.count; ++i) {
    const Table entry = plan_.element(list, i);
    const uint8_t type = entry.u8(instruction::kType);
    const Table content = entry.table(instruction::kContent);
    if (type < instruction::Kernel || type > instruction::Free || !content.present())
      return damaged("instruction", i);
    Instruction built = {};
    built.kind = type;
    built.target = content.u32(call::kIndex);
    Status status = Status::Ok;
    if (type == instruction::Kernel || type == instruction::Delegate) {
      status = take_arguments(i, content.vector(call::kArgs, 4), built);
      if (status == Status::Ok && !measuring_) {
        if (type == instruction::Kernel) {
          status = load_kernel(i, content, built);
        } else if (built.target >= method_->delegate_count_) {
          status = damaged("instruction", i);
        }
      }
    } else if (type == instruction::Move) {
      status = load_move(i, content, built);
    } else if (type == instruction::JumpFalse) {
      status = load_jump(i, content, built, list.count);
    } else {
      if (built.target >= value_count_) return damaged("instruction", i);
      if (!measuring_ && values_[built.target].tag != Tag::Tensor) {
        return fail(Status::InvalidProgram, "instruction {} frees a value that is no tensor", i);
      }
    }
    if (status != Status::Ok) return status;
    if (!measuring_) instructions[i] = built;
  }
  return Status::Ok;
}

Status MethodLoader::take_arguments(size_t index, const Vector& list, Instruction& instruction) {
  if (!list.present) return damaged("instruction", index);
  instruction.arg_count = static_cast<uint32_t>(list.count);
  instruction.args = carve<Value*>(list.count);
  for (size_t k = 0; k < list.count; ++k) {
    const uint32_t slot = list.get<uint32_t>(k);
    if (slot >= value_count_) return damaged("instruction", index);
    if (!measuring_) instruction.args[k] = &values_[slot];
  }
  return Status::Ok;
}

Status MethodLoader::load_kernel(size_t index, const Table& content, Instruction& instruction) {
  const Vector operators = plan_.vector(schema::plan::kOperators, 4);
  (void)content;
  char name[128];
  if (!operator_name(plan_.element(operators, instruction.target), name, sizeof name)) {
    return damaged("the operator of instruction", index);
  }
  Kernel prim;
  const Kernel* kernel = &prim;
  if (!find_prim(name, prim)) {
    char key[512];
    kernel =
        registry_->find(name, specialisation_key(instruction.args, instruction.arg_count, key, sizeof key));
  }
  if (!kernel) {
    return fail(Status::MissingKernel, "instruction {} calls {}, for which no kernel is registered", index,
                name);
  }
  instruction.call = kernel->call;
  if (kernel->call == view) method_->has_views_ = true;
  const Status status = check_arguments(index, *kernel, instruction);
  if (status == Status::Ok) announce_constants(instruction);
  return status;
}

// Tells where constants come from of those that the instruction reads whole. One that is
// given integers too may look up a few rows by them.
void MethodLoader::announce_constants(const Instruction& instruction) {
  for (uint32_t round = 0; round < 2; ++round) {
    for (uint32_t k = 0; k < instruction.arg_count; ++k) {
      const Value& value = *instruction.args[k];
      if (value.tag != Tag::Tensor) continue;
      const TensorImpl& tensor = *value.as_tensor.unsafeGetTensorImpl();
      if (round == 0) {
        if (tensor.dtype == ScalarType::Int || tensor.dtype == ScalarType::Long) return;
      } else if (tensor.flags & kConstantTensor) {
        DataLoader* loader = program_.loader_;
        const size_t bytes = value.as_tensor.nbytes();
        if (loader->will_read) loader->will_read(loader, tensor.data, bytes);
        if (external_ && external_->will_read) external_->will_read(external_, tensor.data, bytes);
      }
    }
  }
}

namespace {

constexpr ScalarType kNothingLeftOut = static_cast<ScalarType>(-1);

// An element type in `value` that a selective build left out of the kernel.
ScalarType left_out_dtype(const Kernel& kernel, const Value& value) {
  ScalarType found = kNothingLeftOut;
  const auto look = [&](const Tensor& tensor) {
    const ScalarType dtype = tensor.scalar_type();
    if ((kernel.dtypes >> static_cast<int>(dtype) & 1u) == 0) found = dtype;
  };
  if (kernel.dtypes == 0) return found;
  if (value.tag == Tag::Tensor) look(value.as_tensor);
  if (value.tag == Tag::TensorList) {
    for (const Tensor& tensor : value.to_tensor_list()) look(tensor);
  }
  if (value.tag == Tag::OptionalTensorList) {
    for (const Optional<Tensor>& tensor : value.to_optional_tensor_list()) {
      if (tensor.has_value()) look(tensor.value());
    }
  }
  return found;
}

}  // namespace

Status MethodLoader::check_arguments(size_t index, const Kernel& kernel, const Instruction& instruction) {
  const size_t expected = strlen(kernel.signature);
  // The results follow the arguments once more, as one value.
  if (instruction.arg_count != expected && instruction.arg_count != expected + 1) {
    return fail(Status::InvalidProgram, "instruction {} passes {} arguments to {}, which takes {}", index,
                instruction.arg_count, kernel.name, expected);
  }
  for (size_t k = 0; k < expected; ++k) {
    const Value& given = *instruction.args[k];
    // A result is written to, which no constant may be.
    const bool constant = kernel.signature[k] == 'O' && given.tag == Tag::Tensor &&
                          (given.as_tensor.unsafeGetTensorImpl()->flags & kConstantTensor);
    if (!constant && signature_takes(kernel.signature[k], given.tag)) {
      const ScalarType left_out = left_out_dtype(kernel, given);
      if (left_out == kNothingLeftOut) continue;
      return fail(Status::NotSupported, "instruction {} calls {} with {}, for which it was not compiled here",
                  index, kernel.name, dtype_name(left_out));
    }
    const char letter[2] = {kernel.signature[k], '\0'};
    return fail(Status::InvalidProgram,
                "instruction {} passes a {} as argument {} of {}, which takes it as {}", index,
                tag_name(given.tag), k, kernel.name, letter);
  }
  return Status::Ok;
}

Status MethodLoader::load_move(size_t index, const Table& content, Instruction& instruction) {
  const uint32_t to = content.u32(schema::call::kTo);
  if (instruction.target >= value_count_ || to >= value_count_) return damaged("instruction", index);
  instruction.args = carve<Value*>(2);
  instruction.arg_count = 2;
  if (measuring_) return Status::Ok;
  Value* from = instruction.args[0] = &values_[instruction.target];
  Value* into = instruction.args[1] = &values_[to];
  if (from->tag != into->tag && !(from->is_number() && into->is_number())) {
    return fail(Status::InvalidProgram, "instruction {} moves a {} to a {}", index, tag_name(from->tag),
                tag_name(into->tag));
  }
  if (into->tag != Tag::Tensor) return Status::Ok;
  // Kernels were chosen, and inputs are set, by what the file says of the slot.
  bool input = false;
  for (size_t i = 0; i < method_->input_count_; ++i) input |= &values_[method_->inputs_[i]] == into;
  if (input || from->as_tensor.scalar_type() != into->as_tensor.scalar_type() ||
      from->as_tensor.dim() != into->as_tensor.dim()) {
    return fail(Status::InvalidProgram, "instruction {} moves a tensor to {}", index,
                input ? "an input" : "one of another dtype or rank");
  }
  return Status::Ok;
}

Status MethodLoader::load_jump(size_t index, const Table& content, Instruction& instruction, size_t count) {
  const uint32_t condition = content.u32(schema::call::kIndex);
  const uint32_t destination = content.u32(schema::call::kTo);
  if (condition >= value_count_ || destination > count) return damaged("instruction", index);
  instruction.args = carve<Value*>(1);
  instruction.arg_count = 1;
  instruction.target = destination;
  if (measuring_) return Status::Ok;
  Value* value = instruction.args[0] = &values_[condition];
  const bool legal = value->tag == Tag::Bool || value->tag == Tag::Int ||
                     (value->tag == Tag::Tensor && value->as_tensor.scalar_type() == ScalarType::Bool);
  if (!legal) return fail(Status::InvalidProgram, "instruction {} jumps on a value that is no bool", index);
  return Status::Ok;
}

bool operator_name(const Table& op, char* buffer, size_t size) {
  const char* parts[] = {op.string(schema::op::kName), op.string(schema::op::kOverload)};
  if (!parts[0]) return false;
  size_t used = 0;
  for (int p = 0; p < 2; ++p) {
    const char* text = parts[p] ? parts[p] : "";
    const size_t length = strlen(text);
    if (length == 0 && p == 1) break;
    if (used + length + 2 > size) return false;
    if (p == 1) buffer[used++] = '.';
    memcpy(buffer + used, text, length);
    used += length;
  }
  buffer[used] = '\0';
  return true;
}

}  // namespace penlight
