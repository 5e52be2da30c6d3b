package scripttest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// useMPI puts a directory before all of PATH in which mpicc, mpicxx, mpifort and mpiexec are
// MPICH's, which the pages and scripts mean: where Open MPI is installed too, Debian gives
// it these names. Without MPICH they stay as they are.
//
// Ranks sleep there while they wait for each other: mpiexec, mpiexec.openmpi and srun preload
// testdata/mpi/idle.c. MPICH polls without a pause, so that four ranks on two processors took
// nine tenths of their time for waiting. Open MPI does so too where a host file promises it
// more processors than there are, and was forty times slower.
func useMPI(dir string) error {
	for _, name := range []string{"mpicc", "mpicxx", "mpifort"} {
		if path, err := exec.LookPath(name + ".mpich"); err == nil {
			if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	idle := filepath.Join(dir, "idle.so")
	if exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", idle, Clone("cmd/ckpt/testdata/mpi/idle.c")).Run() != nil {
		idle = "" // preloads nothing
	}
	launchers := map[string]string{"mpiexec.openmpi": "mpiexec.openmpi", "srun": "srun"}
	for _, name := range []string{"mpiexec", "mpiexec.mpich"} {
		if says, err := exec.Command(name, "--version").Output(); err == nil && strings.HasPrefix(string(says), "HYDRA") {
			launchers["mpiexec"], launchers["mpiexec.mpich"] = name, name
		}
	}
	for name, command := range launchers {
		path, err := exec.LookPath(command)
		if err != nil {
			continue
		}
		script := fmt.Sprintf("#!/bin/sh\nexport LD_PRELOAD='%s' OMPI_MCA_mpi_yield_when_idle=1\nexec %s \"$@\"\n", idle, path)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			return err
		}
	}
	return os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}
