package mpi

const childEnv = "CKPT_MPI_TEST_CHILD"

func childMain() int { return 0 }
