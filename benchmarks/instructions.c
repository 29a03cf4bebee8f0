// A plug-in of qemu's user mode: counts the instructions that a program executes, and says at
// its end how many there were. What it calls is declared here, so that it compiles without
// qemu's sources.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*seen)(qemu_plugin_id_t, struct qemu_plugin_tb*));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb* tb, void (*run)(unsigned, void*), int flags,
                                          void* data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*end)(qemu_plugin_id_t, void*), void* data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* tb);

__attribute__((visibility("default"))) int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static uint64_t executed;

static void on_run(unsigned cpu, void* count) {
  (void)cpu;
  executed += (uintptr_t)count;
}

static void on_block(qemu_plugin_id_t id, struct qemu_plugin_tb* tb) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_cb(tb, on_run, 0, (void*)(uintptr_t)qemu_plugin_tb_n_insns(tb));
}

static void on_end(qemu_plugin_id_t id, void* data) {
  (void)id, (void)data;
  fprintf(stderr, "instructions executed: %llu\n", (unsigned long long)executed);
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const void* info, int argc,
                                                               char** argv) {
  (void)info, (void)argc, (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_block);
  qemu_plugin_register_atexit_cb(id, on_end, NULL);
  return 0;
}
