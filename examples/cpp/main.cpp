// Loads a program and runs its method `forward`: all that a C++ user writes.
//
//   classify model.pte
#include <penlight/module.h>
#include <stdio.h>

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s model.pte\n", argv[0]);
    return 2;
  }
  penlight::Module model(argv[1]);
  if (!model.ok()) {
    fprintf(stderr, "%s\n", model.error());
    return 1;
  }
  const float x[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 2.5f, 3.0f, 3.5f};
  auto out = model.forward(penlight::tensor(x, {1, 8}));
  if (!out.ok()) {
    fprintf(stderr, "%s\n", out.error());
    return 1;
  }
  const penlight::Tensor scores = out.tensor(0);
  for (int i = 0; i < static_cast<int>(scores.numel()); ++i) {
    printf("%.6f\n", static_cast<double>(scores.const_data_ptr<float>()[i]));
  }
  return 0;
}
