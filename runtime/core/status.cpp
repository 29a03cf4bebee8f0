#include <penlight/status.h>

namespace penlight {

const char* status_name(Status status) {
  switch (status) {
    case Status::Ok:
      return "Ok";
    case Status::Internal:
      return "Internal";
    case Status::InvalidState:
      return "InvalidState";
    case Status::InvalidArgument:
      return "InvalidArgument";
    case Status::InvalidProgram:
      return "InvalidProgram";
    case Status::NotSupported:
      return "NotSupported";
    case Status::NotFound:
      return "NotFound";
    case Status::MissingKernel:
      return "MissingKernel";
    case Status::MissingBackend:
      return "MissingBackend";
    case Status::OutOfMemory:
      return "OutOfMemory";
    case Status::AccessFailed:
      return "AccessFailed";
    case Status::KernelFailed:
      return "KernelFailed";
    case Status::BackendFailed:
      return "BackendFailed";
    case Status::Declined:
      return "Declined";
  }
  return "unknown";
}

}  // namespace penlight
