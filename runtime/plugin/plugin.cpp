// What every plug-in is linked with: the parts of the core that inline code of the
// headers calls, hidden in the plug-in, so that it needs no symbol of its host (which
// may be a static program), and the one function that it shows.
//
// Compiled as one file, once for each compiler, by penlight.build.plugin.
#include <penlight/kernel.h>

#include "core/context.cpp"
#include "core/message.cpp"
#include "core/scalar_type.cpp"
#include "core/status.cpp"
#include "core/tensor.cpp"
#include "core/value.cpp"

namespace penlight::detail {

namespace {
PluginTable table = {kPluginAbi, 0, plugin_layout(), nullptr};
}

void join(OperatorRecord& record) {
  OperatorRecord** last = &table.first;
  while (*last) last = &(*last)->next;
  *last = &record;
}

}  // namespace penlight::detail

#if defined(_WIN32)
#define PENLIGHT_SHOWN __declspec(dllexport)
#else
#define PENLIGHT_SHOWN __attribute__((visibility("default")))
#endif

extern "C" PENLIGHT_SHOWN const penlight::PluginTable* penlight_plugin() { return &penlight::detail::table; }
