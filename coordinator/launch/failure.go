package launch

import (
	"ckpt/coordinator/job"
	"ckpt/internal/wording"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Failure is one that is to be injected: a real SIGKILL.
type Failure struct {
	Rank, Node int           // the victim; -1 if it is the other
	Iter       int           // when it reaches this iteration, if > 0
	After      time.Duration // or this long after the start of the job
	MTBF       time.Duration // or again and again, at random ranks and times
	OfNode     bool          // MTBF is of one node, and random nodes fail
	Seed       uint64
	// LoseLocal says that the node of the victim loses what it keeps of the job.
	LoseLocal bool
}

// loseLocal is the word for a node that loses its directory.
const loseLocal = "lose-local"

// ParseFailure reads a failure in one of the forms
//
//	rank=R@iter=I   node=K@iter=I   rank=R@t=DUR   node=K@t=DUR   mtbf=DUR[,seed=S]   node-mtbf=DUR[,seed=S]
//
// With lose-local after R or K, as in node=K,lose-local@iter=I, the node loses its
// directory of the job, too.
func ParseFailure(s string) (Failure, error) {
	f := Failure{Rank: -1, Node: -1}
	bad := func(why string) (Failure, error) {
		return Failure{}, &job.UsageError{Text: fmt.Sprintf("failure %q: %s", s, why),
			Fix: "write rank=R@iter=I, node=K@iter=I, rank=R@t=DUR, node=K@t=DUR, mtbf=DUR[,seed=S] or node-mtbf=DUR[,seed=S]; node=K,lose-local@iter=I loses the node's directory, too"}
	}
	each, ofNode := strings.CutPrefix(s, "node-")
	if rest, ok := strings.CutPrefix(each, "mtbf="); ok {
		f.OfNode = ofNode
		dur, seed, seeded := strings.Cut(rest, ",")
		var err error
		if f.MTBF, err = wording.Duration(dur); err != nil || f.MTBF <= 0 {
			return bad("no positive duration")
		}
		if seeded {
			digits, ok := strings.CutPrefix(seed, "seed=")
			if f.Seed, err = strconv.ParseUint(digits, 10, 64); !ok || err != nil {
				return bad("no seed=NUMBER after the comma")
			}
		}
		return f, nil
	}
	who, when, ok := strings.Cut(s, "@")
	if !ok {
		return bad("no @")
	}
	who, also, extended := strings.Cut(who, ",")
	if f.LoseLocal = extended; extended && also != loseLocal {
		return bad("only " + loseLocal + " can follow the comma")
	}
	kind, index, _ := strings.Cut(who, "=")
	n, err := strconv.Atoi(index)
	if err != nil || n < 0 {
		return bad("no rank or node number")
	}
	switch kind {
	case "rank":
		f.Rank = n
	case "node":
		f.Node = n
	default:
		return bad("neither a rank nor a node")
	}
	kind, value, _ := strings.Cut(when, "=")
	switch kind {
	case "iter":
		if f.Iter, err = strconv.Atoi(value); err != nil || f.Iter < 1 {
			return bad("iterations count from 1")
		}
	case "t":
		if f.After, err = wording.Duration(value); err != nil || f.After < 0 {
			return bad("no duration after t=")
		}
	default:
		return bad("neither iter=I nor t=DUR")
	}
	return f, nil
}

// Check says whether the failure can happen to the job at all.
func (f Failure) Check(s *job.Spec) error {
	switch {
	case f.Rank >= s.NP:
		return job.Clash(job.ClashRank, fmt.Sprintf("failure of rank %d: the job has ranks 0 to %d", f.Rank, s.NP-1), "")
	case f.LoseLocal && s.Tier == nil && (s.Program == nil || s.Program.Local == nil):
		return job.Clash(job.ClashLost, "a failure with lose-local", "")
	case f.Node >= len(s.Mapping):
		return job.Clash(job.ClashNode, fmt.Sprintf("failure of node %d: the job has %s", f.Node, nodesFromZero(len(s.Mapping))),
			wording.Sprintf("{nodes} %d spreads the ranks over so many nodes", f.Node+1))
	case s.Program == nil && f.Iter > s.Iterations:
		return job.Clash(job.ClashIter, fmt.Sprintf("failure at iteration %d: the job ends at %d", f.Iter, s.Iterations), "")
	}
	return nil
}

func nodesFromZero(n int) string {
	if n == 1 {
		return "one node, 0"
	}
	return fmt.Sprintf("nodes 0 to %d", n-1)
}

// Victims returns the ranks that the failure hits.
func (f Failure) Victims(m job.Mapping) []int {
	if f.Rank >= 0 {
		return []int{f.Rank}
	}
	if f.Node >= len(m) { // restarted on fewer nodes
		return nil
	}
	var ranks []int
	for i := range m[f.Node] {
		ranks = append(ranks, m.First(f.Node)+i)
	}
	return ranks
}
