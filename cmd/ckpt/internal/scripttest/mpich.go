package scripttest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// useMPICH puts a directory before all of PATH in which mpicc, mpicxx, mpifort and mpiexec are
// MPICH's, which the pages and scripts mean: where Open MPI is installed too, Debian gives
// it these names. Without MPICH it changes nothing.
//
// The ranks of MPICH sleep there while they wait for each other: mpiexec preloads
// testdata/mpich/idle.c. MPICH polls without a pause, so that four ranks on two processors
// took nine tenths of their time for waiting.
func useMPICH(dir string) error {
	for _, name := range []string{"mpicc", "mpicxx", "mpifort"} {
		if path, err := exec.LookPath(name + ".mpich"); err == nil {
			if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	preload := "-genv LD_PRELOAD '" + filepath.Join(dir, "idle.so") + "'"
	if exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", filepath.Join(dir, "idle.so"), Clone("cmd/ckpt/testdata/mpich/idle.c")).Run() != nil {
		preload = ""
	}
	for _, name := range []string{"mpiexec.mpich", "mpiexec"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if says, err := exec.Command(path, "--version").Output(); err != nil || !strings.HasPrefix(string(says), "HYDRA") {
			continue // Open MPI's
		}
		script := fmt.Sprintf("#!/bin/sh\nexec '%s' %s \"$@\"\n", path, preload)
		for _, name := range []string{"mpiexec", "mpiexec.mpich"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
				return err
			}
		}
		break
	}
	return os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}
