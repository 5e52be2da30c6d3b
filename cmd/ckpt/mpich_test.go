package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// idleMPICH has the ranks of MPICH sleep while they wait for each other, whatever test runs
// them: it puts an mpiexec before MPICH's that preloads testdata/mpich/idle.c. MPICH polls
// without a pause, so that four ranks on two processors took nine tenths of their time for
// waiting. Without MPICH or a compiler it does nothing.
func idleMPICH(dir string) error {
	source, err := filepath.Abs("testdata/mpich/idle.c")
	if err != nil {
		return err
	}
	library := filepath.Join(dir, "idle.so")
	if exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", library, source).Run() != nil {
		return nil
	}
	for _, name := range []string{"mpiexec", "mpiexec.mpich"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if says, err := exec.Command(path, "--version").Output(); err != nil || !strings.HasPrefix(string(says), "HYDRA") {
			continue // Open MPI's
		}
		script := fmt.Sprintf("#!/bin/sh\nexec '%s' -genv LD_PRELOAD '%s' \"$@\"\n", path, library)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			return err
		}
	}
	return os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}
