// Plug-ins across the C interface.
#include "c_api.h"
#include "plugin.h"

using penlight::OperatorRecord;
using penlight::Status;

pl_status pl_load_plugin(const char* path, const pl_plugin** plugin, char* error, size_t error_size) {
  const OperatorRecord* first = nullptr;
  const Status status = penlight::hosted::load_plugin(path, &first, error, error_size);
  *plugin = reinterpret_cast<const pl_plugin*>(first);
  if (status == Status::Ok && error_size) error[0] = '\0';
  return static_cast<pl_status>(status);
}

void pl_undo_plugin(void) { penlight::hosted::undo_plugin(); }

pl_status pl_describe_plugin(const pl_plugin* plugin, uint64_t index, pl_plugin_operator* described) {
  const OperatorRecord* record = reinterpret_cast<const OperatorRecord*>(plugin);
  while (record && index-- > 0) record = record->next;
  if (!record) return static_cast<pl_status>(Status::InvalidArgument);
  *described = {record->kernel.name, record->library.name, record->kernel.signature, record->schema,
                record->shapes,      record->backward,     record->kernel.source};
  return 0;
}
