/* The program whose logs are in this directory. Each rank uses one call of each kind
 * that Darshan counts; see make. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char buf[65536];

static void posix_part(int rank) {
  char name[64], other[64];
  snprintf(name, sizeof name, "own.%d", rank);
  snprintf(other, sizeof other, "own.%d.done", rank);
  int fd = open(name, O_CREAT | O_TRUNC | O_RDWR, 0600);
  for (int i = 0; i < 8; i++) pwrite(fd, buf, 4096, i * 8192L);
  write(fd, buf, 100);
  fsync(fd);
  lseek(fd, 0, SEEK_SET);
  for (int i = 0; i < 3; i++) read(fd, buf, 1000);
  struct stat st;
  fstat(fd, &st);
  void *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
  munmap(p, 4096);
  fdatasync(fd);
  close(fd);
  rename(name, other);
}

static void stdio_part(int rank) {
  char name[64];
  snprintf(name, sizeof name, "log.%d", rank);
  FILE *f = fopen(name, "w+");
  for (int i = 0; i < 20; i++) fprintf(f, "line %d of %d\n", i, rank);
  fflush(f);
  fseek(f, 0, SEEK_SET);
  fread(buf, 1, 64, f);
  fclose(f);
}

static void mpi_part(int rank, int size) {
  MPI_File fh;
  MPI_Status st;
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "romio_cb_write", "enable");
  MPI_File_open(MPI_COMM_WORLD, "shared", MPI_MODE_CREATE | MPI_MODE_RDWR, info, &fh);
  for (int i = 0; i < 2; i++)
    MPI_File_write_at_all(fh, (MPI_Offset)(i * size + rank) * 16384, buf, 16384, MPI_BYTE, &st);
  MPI_File_sync(fh);
  MPI_File_read_at(fh, (MPI_Offset)rank * 16384, buf, 512, MPI_BYTE, &st);
  MPI_Request r;
  MPI_File_iwrite_at(fh, (MPI_Offset)rank * 16384, buf, 256, MPI_BYTE, &r);
  MPI_Wait(&r, &st);
  MPI_File_close(&fh);
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  posix_part(rank);
  stdio_part(rank);
  mpi_part(rank, size);
  MPI_Finalize();
  return 0;
}
