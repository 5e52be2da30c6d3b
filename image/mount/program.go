package mount

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Program is the process behind a request.
type Program struct {
	// App is the application: the job of an MPI launcher or of ckpt, else the group of processes,
	// as a shell makes one of each pipeline.
	App     string
	Uid     uint32
	Process int // 0 if unknown
	Rank    int // in MPI, or -1
}

// Programs finds the programs behind requests in /proc. Its zero value is ready. It may be used
// by several goroutines.
type Programs struct {
	mu    sync.Mutex
	known map[Caller]found
}

type found struct {
	program Program
	at      time.Time
}

const (
	// remembered is how long a thread counts as the same: numbers come back much later.
	remembered  = 2 * time.Second
	mostThreads = 4096
)

// Of returns the program of a request: of the caller, or of the opener where the kernel does not
// say who calls.
func (p *Programs) Of(r *Request) Program {
	c := r.Caller
	if c.Pid == 0 {
		c = r.Opener
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	f, ok := p.known[c]
	if ok && now.Sub(f.at) < remembered {
		return f.program
	}
	if p.known == nil || len(p.known) >= mostThreads {
		p.known = make(map[Caller]found)
	}
	f = found{look(c), now}
	p.known[c] = f
	return f.program
}

// launchers start the ranks of MPI jobs.
var launchers = []string{"mpiexec", "mpiexec.hydra", "mpirun", "mpirun.openmpi", "orterun", "prterun", "prte", "prted", "orted", "hydra_pmi_proxy", "srun", "slurmstepd"}

// Variables in which launchers tell a process its rank; the first that is set counts.
var rankVariables = []string{"CKPT_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}

// Variables that all processes of a job have in common.
var jobVariables = []string{"CKPT_SOCKET", "SLURM_JOB_ID"}

func look(c Caller) Program {
	p := Program{App: fmt.Sprintf("user %d", c.Uid), Uid: c.Uid, Rank: -1}
	s, ok := stat(int(c.Pid))
	if !ok {
		return p
	}
	p.Process, p.App = s.process, fmt.Sprintf("group %d", s.group)
	environment := variables(int(c.Pid))
	for _, name := range rankVariables {
		if n, err := strconv.Atoi(environment[name]); err == nil && n >= 0 {
			p.Rank = n
			break
		}
	}
	for _, name := range jobVariables {
		if v := environment[name]; v != "" {
			p.App = fmt.Sprintf("%s=%s %s", name, v, environment["SLURM_STEP_ID"])
			return p
		}
	}
	if p.Rank < 0 {
		return p
	}
	for at := s.parent; at > 1; {
		above, ok := stat(at)
		if !ok {
			break
		}
		if slices.Contains(launchers, above.name) {
			p.App = fmt.Sprintf("%s %d", above.name, at)
		}
		at = above.parent
	}
	return p
}

type process struct {
	process, parent, group int
	name                   string
}

// stat reads what the kernel says of a thread.
func stat(thread int) (p process, ok bool) {
	if thread <= 0 {
		return p, false
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", thread))
	if err != nil {
		return p, false
	}
	for line := range strings.Lines(string(status)) {
		if v, is := strings.CutPrefix(line, "Tgid:"); is {
			p.process, _ = strconv.Atoi(strings.TrimSpace(v))
		}
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", thread))
	begin, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if err != nil || begin < 0 || end < begin {
		return p, false
	}
	p.name = string(line[begin+1 : end])
	fields := strings.Fields(string(line[end+1:])) // state, parent, group
	if len(fields) < 3 {
		return p, false
	}
	p.parent, err = strconv.Atoi(fields[1])
	group, err2 := strconv.Atoi(fields[2])
	p.group = group
	return p, err == nil && err2 == nil && p.process > 0
}

// variables returns the environment that a process began with, as far as it may be read.
func variables(thread int) map[string]string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", thread))
	m := make(map[string]string)
	for word := range strings.SplitSeq(string(text), "\x00") {
		if name, value, ok := strings.Cut(word, "="); ok {
			m[name] = value
		}
	}
	return m
}
