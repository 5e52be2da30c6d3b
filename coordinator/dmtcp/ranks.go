package dmtcp

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckpt/coordinator/job"
	"ckpt/image/dmtcp"
	"ckpt/internal/family"
)

// rankVariables are where MPI launchers tell a process its rank, sizeVariables where they
// tell the number of ranks. A batch system sets its own for the launcher, too.
var (
	rankVariables = []string{"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"}
	sizeVariables = []string{"PMI_SIZE", "OMPI_COMM_WORLD_SIZE"}
)

// rankOf returns the rank of a process as its launcher has told it. A variable
// that ckpt itself was started with tells nothing: the launcher inherits it.
func rankOf(p family.Process) (string, bool) {
	return given(p, rankVariables)
}

func given(p family.Process, names []string) (string, bool) {
	for _, name := range names {
		if _, ours := os.LookupEnv(name); ours {
			continue
		}
		if v, ok := p.Variable(name); ok {
			return v, true
		}
	}
	return "", false
}

// launchers begin the names of the commands that start MPI programs.
var launchers = []string{"mpiexec", "mpirun", "orterun", "prterun"}

func isLauncher(word string) bool {
	return slices.ContainsFunc(launchers, func(name string) bool { return strings.HasPrefix(filepath.Base(word), name) })
}

// programIn returns the word of a command that names what its launcher starts, "" if none
// does: the first that is a path.
func programIn(command []string) string {
	i := slices.IndexFunc(command, isLauncher)
	if i < 0 {
		return ""
	}
	for _, word := range command[i+1:] {
		if !strings.HasPrefix(word, "-") && strings.Contains(word, "/") {
			return filepath.Base(word)
		}
	}
	return ""
}

// allRanks reports whether all ranks are there, as far as the command and the ranks tell: a
// launcher may be alone for a while.
func (e *engine) allRanks(list []worker) bool {
	want, have := 0, make(map[string]bool)
	if slices.ContainsFunc(e.spec.Program.Command, isLauncher) {
		want = 1
	}
	for _, w := range list {
		if rank, ok := rankOf(w.Process); ok {
			have[rank] = true
		}
		if size, ok := given(w.Process, sizeVariables); ok {
			n, _ := strconv.Atoi(size)
			want = max(want, n)
		}
	}
	return len(have) >= want
}

// readRanks finds out which of the processes that will be restarted are ranks.
func (e *engine) readRanks(inc *incarnation) error {
	files, err := dmtcp.Collect(e.ctx, inc.images, dmtcp.CollectOptions{Rules: e.rules})
	if err != nil {
		return err
	}
	inc.shared = e.sharedFiles(files)
	if files.Guessed {
		return nil // they are no MPI job, and may come and go
	}
	for _, img := range files.Images[:files.NP] {
		inc.virtual = append(inc.virtual, img.PID)
	}
	return nil
}

// sharedFiles lists the files in memory, and those of the MPI library, that processes of
// the program have mapped. Where one is still there, DMTCP maps it as it is now, not as it
// was at the checkpoint: it must go before a restart.
func (e *engine) sharedFiles(files *dmtcp.Set) []string {
	names := make(map[string]bool)
	for _, img := range files.Images {
		for i := range img.Areas {
			name := filepath.Clean(img.Areas[i].Name)
			if strings.HasPrefix(name, "/dev/shm/") || strings.HasPrefix(name, e.state.Session+"/") {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// guess finds out which processes are ranks: of a restart the images tell it, before the
// first checkpoint the variables of their launcher do.
func (e *engine) guess(inc *incarnation, peers []worker) {
	names := make(map[string]bool)
	for _, p := range peers {
		if len(inc.images) > 0 {
			if slices.Contains(inc.virtual, p.virtual) {
				inc.ranks = append(inc.ranks, p.Process)
			}
			continue
		}
		if rank, ok := rankOf(p.Process); ok {
			inc.ranks = append(inc.ranks, p.Process)
			names[rank] = true
		}
	}
	if n := len(names); n > 0 && len(e.line) == 0 {
		e.spec.NP, e.spec.Mapping = n, job.Mapping{n}
	}
	if e.planned.former == 0 {
		e.planned.former = time.Duration(float64(family.Resident(processesOf(peers))) / guessedRate * float64(time.Second))
	}
}

// watchRanks reports the failure of the program when a rank has ended and others have not,
// for too long: some launchers do not notice it under DMTCP, and the others wait for ever.
func (e *engine) watchRanks(inc *incarnation) {
	var since time.Time
	for {
		select {
		case <-inc.program.over:
			return
		case <-time.After(pollEvery):
		}
		gone := slices.IndexFunc(inc.ranks, func(p family.Process) bool { return !p.Alive() })
		switch {
		case gone < 0 || !slices.ContainsFunc(inc.ranks, family.Process.Alive):
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > e.opt.Limits.Silence:
			reason := fmt.Sprintf("the process %d of a rank has ended, others have not for %v", inc.ranks[gone].PID, e.opt.Limits.Silence)
			e.post(func() {
				if e.inc == inc && e.ending == nil && !e.taking {
					e.fail(reason)
				}
			})
			since = time.Now() // again, unless that was heard
		}
	}
}
