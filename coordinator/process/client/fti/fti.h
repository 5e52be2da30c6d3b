/* fti.h: FTI's basic interface in C on top of ckpt.h.
 *
 *     ckpt sdk c -o ckpt.h && ckpt sdk fti -o fti.h
 *     mpicc heat_fti.c -o heat
 *     ckpt launch --every 30m --auto-restart -- mpiexec -n 8 ./heat 4096 10000
 *
 * Programs that protect memory by FTI_Protect compile unchanged. Names and arguments come
 * from FTI's public interface; the code is our own.
 *
 * Differences from FTI:
 *   - The configuration file is not read: the options of "ckpt launch" say how often
 *     FTI_Snapshot takes a checkpoint, where checkpoints go and how they are written.
 *     Levels mean nothing: "ckpt launch --local" has levels.
 *   - All ranks compute: no process is a head, and FTI_COMM_WORLD has all of them.
 *   - FTI_Snapshot returns FTI_SCES also when it has taken a checkpoint.
 *   - If "ckpt stop" or the end of the walltime stops the job, the program ends inside
 *     FTI_Snapshot or FTI_Checkpoint, after the checkpoint.
 *   - FTI_Finalize keeps the last checkpoint: "ckpt rm" removes it.
 *   - HDF5 groups, staging and incremental checkpoints by variable are not there.
 */
#ifndef FTI_H
#define FTI_H

#define FTI_BUFS 256
#define FTI_DONE 1
#define FTI_SCES 0
#define FTI_NSCS -1
#define FTI_NREC -2
#define FTI_HEAD 2
#define FTI_L1 1
#define FTI_L2 2
#define FTI_L3 3
#define FTI_L4 4

#ifdef __cplusplus
extern "C" {
#endif

#define FTI_ONCE CKPT_SHIM

typedef int fti_id_t;
#define FTIT_type fti_id_t

FTI_ONCE MPI_Comm FTI_COMM_WORLD = MPI_COMM_NULL;
FTI_ONCE fti_id_t FTI_CHAR = 0, FTI_SHRT = 1, FTI_INTG = 2, FTI_LONG = 3, FTI_UCHR = 4, FTI_USHT = 5;
FTI_ONCE fti_id_t FTI_UINT = 6, FTI_ULNG = 7, FTI_SFLT = 8, FTI_DBLE = 9, FTI_LDBE = 10;

#define FTI_I_TYPES 256
struct fti_state {
    size_t sizes[FTI_I_TYPES]; /* of the types */
    int types;
    long step;      /* calls of FTI_Checkpoint and FTI_Snapshot so far; a region */
    int recovering; /* there is a checkpoint, and its memory was not asked for */
};
FTI_ONCE struct fti_state fti_state = {
    {1, sizeof(short), sizeof(int), sizeof(long), 1, sizeof(short), sizeof(int), sizeof(long), sizeof(float),
     sizeof(double), sizeof(long double)}, 11, 0, 0};

FTI_ONCE void fti_region(char *to, size_t room, int id) { snprintf(to, room, "fti.%d", id); }

FTI_ONCE int FTI_Init(const char *configFile, MPI_Comm globalComm) {
    (void)configFile;
    if (ckpt_shim_begin("FTI_Init", globalComm) != 0) return FTI_NSCS;
    MPI_Comm_dup(globalComm, &FTI_COMM_WORLD);
    ckpt_protect("fti:step", &fti_state.step, sizeof fti_state.step, CKPT_INT64);
    fti_state.recovering = ckpt_query("") > 0;
    return FTI_SCES;
}

/* 0: a new run; 1: one that continues. */
FTI_ONCE int FTI_Status(void) { return fti_state.recovering; }

FTI_ONCE int FTI_InitType(fti_id_t *type, int size) {
    if (size < 1) return ckpt_shim_refuse("FTI_InitType", "the size is not positive");
    if (fti_state.types == FTI_I_TYPES) return ckpt_shim_refuse("FTI_InitType", "more than 256 types");
    *type = fti_state.types++;
    fti_state.sizes[*type] = (size_t)size;
    return FTI_SCES;
}

FTI_ONCE int FTI_Protect(int id, void *ptr, int64_t count, fti_id_t tid) {
    char region[32];
    if (!ckpt_shim.begun) return ckpt_shim_refuse("FTI_Protect", "call FTI_Init first");
    if (tid < 0 || tid >= fti_state.types) return ckpt_shim_refuse("FTI_Protect", "unknown type");
    if (count < 0 || (uint64_t)count > (size_t)-1 / fti_state.sizes[tid])
        return ckpt_shim_refuse("FTI_Protect", "the size is no size");
    int type = tid == FTI_DBLE ? CKPT_FLOAT64 : tid == FTI_SFLT ? CKPT_FLOAT32 : CKPT_BYTES;
    fti_region(region, sizeof region, id);
    if (ckpt_protect(region, ptr, (size_t)count * fti_state.sizes[tid], type) < 0)
        return ckpt_shim_refuse("FTI_Protect", ckpt_error());
    return FTI_SCES;
}

/* The bytes of a variable in the checkpoint, 0 without one. */
FTI_ONCE int64_t FTI_GetStoredSize(int id) {
    char region[32];
    fti_region(region, sizeof region, id);
    long long bytes = ckpt_query(region);
    return bytes < 0 ? 0 : bytes;
}

/* Make memory that is protected as large as it is in the checkpoint. */
FTI_ONCE void *FTI_Realloc(int id, void *ptr) {
    char region[32];
    int64_t bytes = FTI_GetStoredSize(id);
    fti_region(region, sizeof region, id);
    struct ckpt_i_region *r = ckpt_i_find(region);
    if (r == NULL || bytes == 0 || (size_t)bytes == r->bytes) return ptr;
    void *mem = realloc(ptr, (size_t)bytes);
    if (mem == NULL) return ckpt_shim_refuse("FTI_Realloc", "out of memory"), (void *)NULL;
    ckpt_protect(region, mem, (size_t)bytes, r->type);
    return mem;
}

FTI_ONCE int FTI_Recover(void) {
    long step = ckpt_restore();
    fti_state.recovering = 0;
    if (step < 0) return ckpt_shim_refuse("FTI_Recover", ckpt_error()), FTI_NREC;
    return step == 0 ? FTI_NREC : FTI_SCES;
}

/* One variable after the other: the first call reads the whole checkpoint. */
FTI_ONCE int FTI_RecoverVarInit(void) {
    if (!fti_state.recovering) return FTI_NREC;
    long step = ckpt_shim_stage("FTI_RecoverVar", "fti.");
    fti_state.recovering = 0;
    if (step < 0) return ckpt_shim_refuse("FTI_RecoverVar", ckpt_error()), FTI_NREC;
    return FTI_SCES;
}

FTI_ONCE int FTI_RecoverVar(int id) {
    char region[32];
    fti_region(region, sizeof region, id);
    struct ckpt_i_region *r = ckpt_i_find(region);
    if (r == NULL) return ckpt_shim_refuse("FTI_RecoverVar", "the variable is not protected"), FTI_NREC;
    if (ckpt_shim.staged == NULL && FTI_RecoverVarInit() != FTI_SCES) return FTI_NREC;
    if (ckpt_shim_take(region, r->ptr, r->bytes) < 0)
        return ckpt_shim_refuse("FTI_RecoverVar", "the checkpoint lacks the variable, or has more of it"), FTI_NREC;
    return FTI_SCES;
}

FTI_ONCE int FTI_RecoverVarFinalize(void) {
    ckpt_shim_unstage();
    return FTI_SCES;
}

FTI_ONCE int fti_took(const char *call, int status) {
    if (status >= 0) return FTI_DONE;
    return ckpt_shim_refuse(call, ckpt_error());
}

FTI_ONCE int FTI_Checkpoint(int id, int level) {
    (void)id;
    if (level < FTI_L1) return ckpt_shim_refuse("FTI_Checkpoint", "no such level: no checkpoint is taken");
    ckpt_shim_unstage();
    return fti_took("FTI_Checkpoint", ckpt_shim_save(++fti_state.step));
}

FTI_ONCE int FTI_Snapshot(void) {
    if (fti_state.recovering) return FTI_Recover();
    ckpt_shim_unstage();
    int status = ckpt_boundary(++fti_state.step);
    if (status == CKPT_STOP) ckpt_shim_leave();
    return status < 0 ? fti_took("FTI_Snapshot", status) : FTI_SCES;
}

FTI_ONCE int FTI_Finalize(void) {
    if (!ckpt_shim.begun) return FTI_NSCS;
    MPI_Comm_free(&FTI_COMM_WORLD);
    return ckpt_shim_end();
}

/* For fti.f90. The communicator becomes FTI_COMM_WORLD. */
FTI_ONCE int fti_fortran_init(MPI_Fint *comm) {
    int status = FTI_Init("", MPI_Comm_f2c(*comm));
    if (status == FTI_SCES) *comm = MPI_Comm_c2f(FTI_COMM_WORLD);
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
