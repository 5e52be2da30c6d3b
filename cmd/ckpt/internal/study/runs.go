package study

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/tune"
	"ckpt/dataset"
)

// A Run is a small run.
type Run struct {
	App   string  `json:"-"`    // as ckpt launch takes it, without the number of ranks
	Name  string  `json:"name"` // NAME.CLASS.NP
	NP    int     `json:"np"`
	Nodes int     `json:"nodes"`
	Data  int64   `json:"data_zone_bytes"` // of a rank, by the workload spec; 0 without one
	Load  float64 `json:"load_ratio"`      // Data over the data of a target's rank
}

// PPN returns the ranks on the fullest node.
func (r *Run) PPN() int { return (r.NP + r.Nodes - 1) / r.Nodes }

const (
	smallRuns  = 3  // two fix a law, the third checks it
	mostRanks  = 64 // of a small run, if that gives it the nodes of the target
	someRanks  = 16 // otherwise
	memoryPart = 4  // a small run takes at most this part of the free memory
)

// counts chooses the numbers of ranks of the small runs, the smallest first: one with
// the ranks per node of the target, if there is one, and others about half and a
// quarter of it. allowed is the rule of the application.
func counts(np, ppn int, allowed func(int) bool) (list []int, samePPN bool) {
	largest := 0
	for n := ppn; n < np && n <= mostRanks && largest == 0; n += ppn {
		if allowed(n) && n > 1 {
			largest, samePPN = n, true
		}
	}
	for n := min(someRanks, np/2); n > 1 && largest == 0; n-- {
		if allowed(n) {
			largest = n
		}
	}
	if largest == 0 {
		return nil, false
	}
	list = []int{largest}
	for n := nearest(largest, 2, largest-1, allowed); n > 0 && len(list) < smallRuns; n = nearest(n, 2, n-1, allowed) {
		list = append(list, n)
	}
	slices.Reverse(list)
	for top := largest; len(list) < smallRuns; {
		if top = nearest(4*top, top+1, min(np-1, mostRanks), allowed); top == 0 {
			break
		}
		list = append(list, top)
	}
	return list, samePPN
}

// nearest returns the allowed count from low to high that is nearest to half of n,
// 0 if there is none.
func nearest(n, low, high int, allowed func(int) bool) (best int) {
	far := math.Inf(1)
	for c := low; c <= high; c++ {
		if d := math.Abs(math.Log(2 * float64(c) / float64(n))); d <= far && allowed(c) {
			best, far = c, d
		}
	}
	return best
}

// nodesFor returns the nodes on which n ranks have about the ranks per node of the
// target.
func nodesFor(n, ppn int) int { return (n + ppn - 1) / ppn }

// choose chooses the small runs of an application with a workload spec.
func (s *Study) choose(target *dataset.Instance, memory int64) error {
	allowed := func(n int) bool { _, err := target.Workload.Instance(target.Class, n); return err == nil }
	list, same := s.NP, false
	if list == nil {
		if list, same = counts(s.Target, s.PPN, allowed); len(list) < 2 {
			return tooSmall(s, "no two smaller numbers of ranks are possible")
		}
	}
	best := math.Inf(1)
	for _, class := range append([]string{target.Class}, target.Workload.Classes()...) {
		runs, need, err := s.runsOf(target, class, list)
		if err != nil || need > memory/memoryPart {
			if class == target.Class && err != nil {
				return err
			}
			continue
		}
		// The class of the target is best: its arrays are those that are predicted.
		off := math.Abs(math.Log(runs[len(runs)-1].Load))
		if class == target.Class {
			off = -1
		}
		if off < best {
			best, s.Small = off, runs
		}
	}
	if s.Small == nil {
		return tooSmall(s, "no class fits into a quarter of the free memory")
	}
	s.Why = why(s, target, same)
	return nil
}

// runsOf describes runs of a class, with the memory that the largest needs.
func (s *Study) runsOf(target *dataset.Instance, class string, list []int) (runs []Run, need int64, err error) {
	for _, n := range list {
		inst, err := target.Workload.Instance(class, n)
		if err != nil {
			return nil, 0, err
		}
		nodes := nodesFor(n, s.PPN)
		mapping, err := job.EvenMapping(n, nodes)
		if err != nil {
			return nil, 0, err
		}
		memory, err := tune.PlanMemory(inst, mapping, s.mpi())
		if err != nil {
			return nil, 0, err
		}
		need = max(need, memory.Zones.Total())
		runs = append(runs, Run{App: withClass(s.App, target.Class, class), Name: inst.String(), NP: n, Nodes: nodes,
			Data: inst.DataBytes(), Load: float64(inst.DataBytes()) / float64(target.DataBytes())})
	}
	return runs, need, nil
}

// withClass replaces the class in the name of an application.
func withClass(app, from, to string) string {
	for _, sep := range []string{".", ":"} {
		if base, ok := strings.CutSuffix(app, sep+from); ok {
			return base + sep + to
		}
	}
	if from == to {
		return app
	}
	return app + ":" + to
}

// why says why the runs were chosen.
func why(s *Study, target *dataset.Instance, same bool) string {
	last := s.Small[len(s.Small)-1]
	var text string
	switch {
	case s.Options.NP != nil:
		text = "These numbers of ranks were given."
	case same:
		text = fmt.Sprintf("One run has %d ranks per node, like the target: what happens in one of its nodes happens in all (Table 5.16).", s.PPN)
	default:
		text = fmt.Sprintf("No small run has %d ranks per node, like the target: the shared zone is extrapolated.", s.PPN)
	}
	if last.App == s.App {
		return text + fmt.Sprintf(" The problem is that of the target, so a rank of %s holds %.3g times the data of a rank of the target.", last.Name, last.Load)
	}
	return text + fmt.Sprintf(" Class %s does not fit into this machine. Of the classes that fit, the load of a rank of %s is nearest: %.3g times that of the target.",
		target.Class, last.Name, last.Load)
}

// chooseAny chooses the small runs of a program that only its command line describes.
func (s *Study) chooseAny() error {
	list, same := s.NP, false
	if list == nil {
		powers := func(n int) bool { return n&(n-1) == 0 }
		if list, same = counts(s.Target, min(s.PPN, 8), powers); len(list) < 2 {
			return tooSmall(s, "no two smaller numbers of ranks are possible")
		}
		same = same && s.PPN <= 8
	}
	for _, n := range list {
		name := fmt.Sprintf("%s on %d", s.Name, n)
		if s.own() {
			name = fmt.Sprintf("%s.%d", s.Name, n) // of the job
		}
		s.Small = append(s.Small, Run{App: s.Name + ".-", Name: name, NP: n, Nodes: 1})
		same = same || n == s.PPN
	}
	switch {
	case same:
		s.Why = fmt.Sprintf("One run has %d ranks per node, like the target: what happens in one of its nodes happens in all (Table 5.16).", s.PPN)
	default:
		s.Why = fmt.Sprintf("All run on this machine. None has %d ranks per node, like the target, so the shared zone is extrapolated.", s.PPN)
	}
	return nil
}

// tooSmall is the error of a target that has no small runs.
func tooSmall(s *Study, reason string) error {
	return ui.BadUsage(fmt.Sprintf("small runs of %s on %d ranks: %s", s.App, s.Target, reason), "give their numbers of ranks with --np 4,9,16, or a larger --target")
}
