// What this machine can do at most, for benchmarks/peak.py: multiply-adds from
// registers, and copies of each size. Compiled for the machine it runs on.
//
//   peak THREADS BYTES...   one line: GFLOP/s, then GB/s (read and written) of each size
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
// Enough chains to hide the latency of 4 or 5 cycles on two units, few enough to stay in registers.
#define CHAINS 12
typedef float Lanes __attribute__((vector_size(4 * LANES)));

typedef struct {
  pthread_barrier_t* start;
  size_t bytes;  // 0 for multiply-adds
  long repeats;
  double seconds;
  char* memory;
} Work;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void multiply_add(long repeats) {
  Lanes sums[CHAINS], by, more;
  for (int i = 0; i < LANES; ++i) by[i] = 0.999f, more[i] = 1e-6f;
  for (int c = 0; c < CHAINS; ++c) sums[c] = more * (float)c;
  for (long r = 0; r < repeats; ++r) {
#pragma GCC unroll 12
    for (int c = 0; c < CHAINS; ++c) sums[c] = sums[c] * by + more;
  }
  for (int c = 0; c < CHAINS; ++c) __asm__ volatile("" ::"m"(sums[c]));
}

static void* run(void* argument) {
  Work* work = argument;
  const size_t half = work->bytes / 2;
  pthread_barrier_wait(work->start);
  const double start = now();
  if (work->bytes == 0) {
    multiply_add(work->repeats);
  } else {
    for (long r = 0; r < work->repeats; ++r) {
      memcpy(work->memory + half, work->memory, half);
      __asm__ volatile("" ::: "memory");
    }
  }
  work->seconds = now() - start;
  return NULL;
}

// Work per second of all threads together, at the best of several tries.
static double rate(int threads, size_t bytes, char* memory) {
  const size_t own = bytes / (size_t)threads / 128 * 128;
  const double each = bytes ? (double)own : 2.0 * LANES * CHAINS;
  const long repeats = bytes ? 1 + (long)(2e7 / each) : 200000;
  double best = 0;
  for (int attempt = 0; attempt < 8; ++attempt) {
    pthread_t ids[64];
    Work work[64];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (int t = 0; t < threads; ++t) {
      work[t] = (Work){&start, bytes ? own : 0, repeats, 0, memory + own * (size_t)t};
      pthread_create(&ids[t], NULL, run, &work[t]);
    }
    double longest = 0;
    for (int t = 0; t < threads; ++t) {
      pthread_join(ids[t], NULL);
      if (work[t].seconds > longest) longest = work[t].seconds;
    }
    pthread_barrier_destroy(&start);
    const double found = threads * each * (double)repeats / longest / 1e9;
    if (found > best) best = found;
  }
  return best;
}

int main(int count, char** words) {
  const int threads = count > 1 ? atoi(words[1]) : 1;
  if (threads < 1 || threads > 64) return 2;
  printf("%.2f", rate(threads, 0, NULL));
  for (int i = 2; i < count; ++i) {
    const size_t bytes = (size_t)strtoull(words[i], NULL, 10);
    char* memory = NULL;
    if (bytes < 8192 || posix_memalign((void**)&memory, 4096, bytes)) return 2;
    memset(memory, 1, bytes);
    printf(" %.2f", rate(threads, bytes, memory));
    free(memory);
  }
  printf("\n");
  return 0;
}
