// Runs the program embedded in this binary, then the one in the file it is given.
#include <penlight/module.h>
#include <penlight_models/net.h>
#include <stdio.h>

static int run(penlight::Module& model, const char* where) {
  const float x[4] = {-2.0f, -1.0f, 1.0f, 2.0f};
  auto out = model.forward(penlight::tensor(x, {1, 4}));
  if (!out.ok()) return fprintf(stderr, "%s: %s\n", where, out.error()), 1;
  const penlight::Tensor y = out.tensor(0);
  printf("%s", where);
  for (int i = 0; i < static_cast<int>(y.numel()); ++i) printf(" %.6f", y.const_data_ptr<float>()[i]);
  printf("\n");
  return 0;
}

int main(int argc, char** argv) {
  penlight::Module embedded;
  embedded.open(net_data, net_size);
  if (run(embedded, "embedded")) return 1;
  for (int i = 1; i < argc; ++i) {
    penlight::Module file(argv[i]);
    if (run(file, "file")) return 1;
  }
  return 0;
}
