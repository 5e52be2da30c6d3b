/* A state that lives in the memory of a device, with checkpoints through a mirror on the host. The
 * device here is a stub, whose memory the host cannot touch. Put cudaMalloc, cudaMemcpy,
 * cudaDeviceSynchronize and a kernel, or those of hip, in the places of its functions.
 *
 *     cc device.c -o device && ./device CELLS STEPS
 */
#include "ckpt.h"

/* ---- The stub ---- */

static double *device_alloc(size_t bytes) { /* cudaMalloc */
    void *mem = mmap(NULL, bytes, PROT_NONE, MAP_SHARED | 0x20 /* MAP_ANONYMOUS */, -1, 0);
    return mem == MAP_FAILED ? NULL : mem;
}

static void device_open(double *mem, size_t bytes, int open) { mprotect(mem, bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE); }

static void device_to_host(double *to, double *mem, size_t bytes) { /* cudaMemcpy */
    device_open(mem, bytes, 1);
    memcpy(to, mem, bytes);
    device_open(mem, bytes, 0);
}

static void host_to_device(double *mem, const double *from, size_t bytes) {
    device_open(mem, bytes, 1);
    memcpy(mem, from, bytes);
    device_open(mem, bytes, 0);
}

static void kernel(double *u, size_t n) { /* kernel<<<…>>> */
    device_open(u, n * sizeof *u, 1);
    for (size_t i = 0; i + 1 < n; i++) u[i] += 0.25 * (u[i + 1] - u[i]);
    device_open(u, n * sizeof *u, 0);
}

static void device_wait(void) {} /* cudaDeviceSynchronize */

/* ---- The program ---- */

int main(int argc, char **argv) {
    if (argc < 3) return fprintf(stderr, "usage: device CELLS STEPS\n"), 2;
    size_t n = strtoul(argv[1], NULL, 10), bytes = n * sizeof(double);
    long steps = atol(argv[2]), every = 10;
    double *u = device_alloc(bytes), *mirror = malloc(bytes); /* cudaMallocHost makes copies faster */
    if (n == 0 || u == NULL || mirror == NULL) return fprintf(stderr, "no memory for %lu cells\n", (unsigned long)n), 1;
    for (size_t i = 0; i < n; i++) mirror[i] = (double)(i * 31 % 101);

    ckpt_init(0, 1); /* a rank and the number of ranks; each has a device of its own */
    ckpt_protect("u", mirror, bytes, CKPT_FLOAT64);
    long first = ckpt_restore();
    if (first < 0) return fprintf(stderr, "%s\n", ckpt_error()), 1;
    host_to_device(u, mirror, bytes); /* 1: after ckpt_restore, before the first kernel */

    for (long step = first; step < steps; step++) {
        kernel(u, n);
        if ((step + 1) % every != 0) continue; /* no copy, and no boundary */
        device_wait();                         /* 2: the kernels before the boundary have ended, */
        device_to_host(mirror, u, bytes);      /* 3: their result is in the mirror, */
        if (ckpt_boundary(step + 1) == CKPT_STOP) break; /* 4: which may change again afterwards */
    }

    double sum = 0;
    device_to_host(mirror, u, bytes);
    for (size_t i = 0; i < n; i++) sum += mirror[i] * (double)(i + 1);
    printf("sum %.17g\n", sum);
    fflush(stdout);
    return ckpt_finalize();
}
