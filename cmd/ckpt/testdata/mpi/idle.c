// A rank of MPICH (ch4:ucx) or Open MPI that finds nothing to do sleeps for a moment, which
// Linux makes some 60 microseconds. Otherwise it polls until its time slice ends.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

int sched_yield(void) { // Open MPI with mpi_yield_when_idle
    struct timespec moment = {0, 1};
    return nanosleep(&moment, 0);
}

unsigned ucp_worker_progress(void *worker) {
    static unsigned (*progress)(void *);
    if (!progress) progress = (unsigned (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
    unsigned done = progress(worker);
    if (done == 0) sched_yield();
    return done;
}
