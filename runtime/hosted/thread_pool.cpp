#include "thread_pool.h"

#if defined(_WIN32) || defined(__wasi__)

namespace penlight::hosted {

Workers workers_of(size_t) { return {}; }

}  // namespace penlight::hosted

#else

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

namespace penlight::hosted {

namespace {

constexpr size_t kMostThreads = 256;
// A thread that waits looks this often at once, some tens of microseconds, and then between
// offers of its processor to others, for about a millisecond: in a run the next kernel that
// is split is not farther away, and to be woken takes longer than many a kernel.
constexpr int kLooks = 2000;
constexpr int kOffers = 1000;
constexpr int kLooksOfOffer = 20;

inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ __volatile__("yield");
#endif
}

template <class T>
T read(const T& from) {
  return __atomic_load_n(&from, __ATOMIC_SEQ_CST);
}
template <class T>
void write(T& to, T value) {
  __atomic_store_n(&to, value, __ATOMIC_SEQ_CST);
}
template <class T>
T add(T& to, T value) {
  return __atomic_fetch_add(&to, value, __ATOMIC_SEQ_CST);
}

// Items of a job that one thread starts with, in a line of the cache of its own.
struct alignas(64) Share {
  size_t next = 0, end = 0;
};

// One job at a time. `open` says that its fields may be read; a thread counts itself
// inside before it looks, and the fields change only while nobody is inside.
struct Pool {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
  int busy = 0;
  size_t spawned = 0;

  alignas(64) unsigned generation = 0;
  int open = 0;
  size_t sleepers = 0;
  alignas(64) size_t inside = 0;

  alignas(64) void (*task)(void* argument, size_t index) = nullptr;
  void* argument = nullptr;
  size_t threads = 0;
  Share shares[kMostThreads];

  // Of every job a thread does the same share first: what it reads there, it most likely wrote
  // in the job before, and has it in a cache of its own. Then it takes what others did not get to.
  void work(size_t mine) {
    for (size_t k = 0; k < threads; ++k) {
      Share& share = shares[mine + k < threads ? mine + k : mine + k - threads];
      while (read(share.next) < share.end) {
        const size_t i = add(share.next, size_t{1});
        if (i < share.end) task(argument, i);
      }
    }
  }
};

Pool pool;

unsigned wait_for_news(unsigned known) {
  for (int look = 0; look < kLooks + kOffers * kLooksOfOffer; ++look) {
    const unsigned now = read(pool.generation);
    if (now != known) return now;
    if (look >= kLooks && look % kLooksOfOffer == 0) {
      sched_yield();
    } else {
      pause_briefly();
    }
  }
  pthread_mutex_lock(&pool.mutex);
  add(pool.sleepers, size_t{1});
  while (read(pool.generation) == known) pthread_cond_wait(&pool.wake, &pool.mutex);
  __atomic_fetch_sub(&pool.sleepers, size_t{1}, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&pool.mutex);
  return read(pool.generation);
}

void* help(void* number) {
  const size_t mine = 1 + reinterpret_cast<size_t>(number);  // the caller's is 0
  for (unsigned known = 0;;) {
    known = wait_for_news(known);
    add(pool.inside, size_t{1});
    if (read(pool.open) && mine < pool.threads) pool.work(mine);
    __atomic_fetch_sub(&pool.inside, size_t{1}, __ATOMIC_SEQ_CST);
  }
  return nullptr;
}

// Called by whoever holds `busy`. Fewer threads than wished for are no error.
void spawn(size_t helpers) {
  while (pool.spawned < helpers) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    const int failed = pthread_create(&thread, &attributes, help, reinterpret_cast<void*>(pool.spawned));
    pthread_attr_destroy(&attributes);
    if (failed) return;
    ++pool.spawned;
  }
}

void run(void* owner, void (*task)(void* argument, size_t index), void* argument, size_t count) {
  const size_t threads = reinterpret_cast<size_t>(owner);
  int idle = 0;
  if (count < 2 ||
      !__atomic_compare_exchange_n(&pool.busy, &idle, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    for (size_t i = 0; i < count; ++i) task(argument, i);
    return;
  }
  spawn(threads - 1);
  pool.task = task;
  pool.argument = argument;
  pool.threads = threads;
  for (size_t t = 0; t < threads; ++t) pool.shares[t] = {count * t / threads, count * (t + 1) / threads};
  write(pool.open, 1);
  add(pool.generation, 1u);
  if (read(pool.sleepers) > 0) {
    pthread_mutex_lock(&pool.mutex);
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.mutex);
  }
  pool.work(0);
  write(pool.open, 0);
  // A helper that lost its processor in the middle of a task may take a while.
  for (int look = 0; read(pool.inside) > 0; ++look) {
    if (look < kLooks) {
      pause_briefly();
    } else {
      sched_yield();
    }
  }
  write(pool.busy, 0);
}

// The processors this process may use, those that share a core counted once.
size_t count_cores() {
  size_t cores = 0;
#if defined(__linux__)
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &allowed)) continue;
      char path[96];
      snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
      int first = cpu;
      if (FILE* file = fopen(path, "r")) {
        if (fscanf(file, "%d", &first) != 1) first = cpu;
        fclose(file);
      }
      if (first == cpu || first < 0 || first >= CPU_SETSIZE || !CPU_ISSET(first, &allowed)) ++cores;
    }
  }
#endif
  if (cores == 0) {
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    cores = online > 0 ? static_cast<size_t>(online) : 1;
  }
  return cores;
}

}  // namespace

Workers workers_of(size_t threads) {
  if (threads == 0) {
    static const size_t cores = count_cores();
    threads = cores;
  }
  if (threads > kMostThreads) threads = kMostThreads;
  if (threads < 2) return {};
  return {run, reinterpret_cast<void*>(threads), threads};
}

}  // namespace penlight::hosted

#endif
