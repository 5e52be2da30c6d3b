package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// waits is a program that joins a job and ends, without ckpt_finalize, when a file is there.
const waits = `
#include <mpi.h>
#include "ckpt.h"
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 2 || ckpt_init(rank, size) != CKPT_OK) return 1;
    printf("rank %d waits\n", rank);
    fflush(stdout);
    while (access(argv[1], F_OK) != 0) usleep(10000);
    return MPI_Finalize();
}
`

// TestLauncherEnds: mpiexec ends when the ranks do, whatever their agents are doing: they
// hold nothing that it waits for.
func TestLauncherEnds(t *testing.T) {
	t.Parallel()
	for i := range mpiLibraries {
		m := &mpiLibraries[i]
		t.Run(m.name, func(t *testing.T) {
			const ranks = 3
			p := &heatProgram{language: "c", mpi: m, needs: "mpicc." + m.name}
			s := newSandbox(t, m.env)
			p.compileSource(t, s.dir, waits)
			file := filepath.Join(s.dir, "end")
			cmd := s.command("output", append([]string{"ckpt", "launch", "--job", "waits", "--"}, m.mpiexec(ranks, p.command[0], file)...)...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Wait() }()
			defer func() { _ = cmd.Process.Kill() }()
			s.eventually("the ranks to come", func() bool {
				b, err := os.ReadFile(filepath.Join(s.dir, "output"))
				if strings.Contains(string(b), "error:") || err != nil {
					t.Fatalf("%v\n%s", err, b)
				}
				return strings.Count(string(b), " waits\n") == ranks && len(s.having(anAgent)) == ranks
			})
			agents := s.having(anAgent)
			var held error
			defer func() {
				if held != nil {
					t.Error(held)
				}
			}()
			s.eventually("the agents to hold nothing", func() bool { // a rank closes their end when it has started them
				held = s.holdNothing(agents)
				return held == nil
			})
			// The coordinator and the agents cannot help any more.
			stopped := append(agents, foundProcess{pid: cmd.Process.Pid})
			for _, p := range stopped {
				p.signal(syscall.SIGSTOP)
			}
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s.eventually("mpiexec to end", func() bool { return len(s.having(aLauncher)) == 0 })
			if left := s.having(anAgent); len(left) != ranks {
				t.Errorf("of the agents, that were to outlive it, there are %v", left)
			}
			for _, p := range stopped {
				p.signal(syscall.SIGCONT)
			}
			s.eventually("ckpt to end", func() bool { return len(s.processes()) == 0 })
			s.nothingLeft()
		})
	}
}

// TestLauncherDies: the command of a program dies with its coordinator, also one that ends
// by no signal of its ranks.
func TestLauncherDies(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, nil)
	cmd := s.command("output", "ckpt", "launch", "--job", "sleeps", "--", "sleep", "100000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.eventually("the command to start", func() bool { return len(s.having(another)) == 1 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	s.eventually("the command to end", func() bool { return len(s.processes()) == 0 })
}

// holdNothing checks that agents have no descriptor of the launcher or of a rank, and no
// terminal.
func (s *sandbox) holdNothing(agents []foundProcess) error {
	others := slices.DeleteFunc(s.processes(), func(p foundProcess) bool { r := p.role(); return r == anAgent || r == aCoordinator })
	for _, agent := range agents {
		own := s.descriptors(agent)
		for fd := range 3 {
			if target, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", agent.pid, fd)); target != os.DevNull {
				return fmt.Errorf("descriptor %d of agent %v is %s", fd, &agent, target)
			}
		}
		for _, p := range others {
			for target := range s.descriptors(p) {
				if own[target] {
					return fmt.Errorf("agent %v and %v both hold %s", &agent, &p, target)
				}
			}
		}
	}
	return nil
}

// descriptors returns the pipes and sockets that a process holds.
func (s *sandbox) descriptors(p foundProcess) map[string]bool {
	held := make(map[string]bool)
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.pid))
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && (strings.HasPrefix(target, "pipe:") || strings.HasPrefix(target, "socket:")) {
			held[target] = true
		}
	}
	return held
}
