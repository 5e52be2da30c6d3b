package job

import (
	"context"
	"fmt"
	"slices"

	"ckpt/coordinator/protocol/channel"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
)

// A Recut says that a job of several groups continues on other ranks than it was launched on, or in
// other groups. Its beginning is a cut of the ranks before: a checkpoint of each of their groups,
// all of one iteration, which no message crosses. These checkpoints stay, and numbers up to theirs
// are of no group of now.
type Recut struct {
	NP         int     `json:"np"`
	Mapping    Mapping `json:"mapping"`
	From       []int   `json:"from"` // checkpoints of the groups before
	Iteration  int     `json:"iteration"`
	WasNP      int     `json:"was_np"`
	WasMapping Mapping `json:"was_mapping"`
	Outputs    uint64  `json:"outputs"` // of rank 0, up to the iteration
}

// Last is the highest number of the checkpoints before; 0 if d is nil.
func (d *Recut) Last() int {
	if d == nil {
		return 0
	}
	return slices.Max(d.From)
}

// At is the iteration at which the job begins; 0 if d is nil.
func (d *Recut) At() int {
	if d == nil {
		return 0
	}
	return d.Iteration
}

func (d *Recut) same(o *Recut) bool { return d.Last() == o.Last() }

func (d *Recut) check() error {
	switch {
	case d == nil:
		return nil
	case len(d.From) == 0 || slices.Min(d.From) < 1 || d.Iteration < 1:
		return fmt.Errorf("dealt from checkpoints %v of iteration %d", d.From, d.Iteration)
	case !d.Mapping.places(d.NP) || !d.WasMapping.places(d.WasNP):
		return fmt.Errorf("dealt from %d ranks on %v to %d on %v", d.WasNP, d.WasMapping, d.NP, d.Mapping)
	}
	return nil
}

// on describes the job on other ranks.
func (s Spec) on(np int, m Mapping) Spec {
	s = s.OnRanks(np)
	s.Mapping, s.GroupSize = m, min(s.GroupSize, np)
	return s
}

// On describes a stored job on other ranks.
func (s *Resolved) On(np int, m Mapping) Spec {
	if s.launched != nil {
		s = s.launched
	}
	return s.on(np, m)
}

// continued describes a stored job as it continues: on the ranks that it was dealt to, if it was.
func continued(j *image.Job, spec *Resolved) (*Resolved, error) {
	if spec.Mode == Coordinated {
		return spec, nil
	}
	l, err := readBaseline(j)
	if err != nil || l.Recut == nil || l.Recut.check() != nil {
		return spec, nil // who reads the baseline next tells
	}
	now, err := spec.on(l.Recut.NP, l.Recut.Mapping).Resolve()
	if err != nil {
		return nil, senseless(j, err)
	}
	now.Recut, now.launched = l.Recut, spec
	return now, nil
}

// Continue has a description begin where a stored one does.
func (s *Resolved) Continue(stored *Resolved) { s.Recut, s.launched = stored.Recut, stored.launched }

// before describes the job that took checkpoint n.
func (s *Resolved) before(n int) (*Resolved, error) {
	if n > s.Recut.Last() || s.launched == nil {
		return s, nil
	}
	return s.launched.on(s.Recut.WasNP, s.Recut.WasMapping).Resolve()
}

// Later leaves the numbers of checkpoints out that were taken before the job was dealt.
func (s *Resolved) Later(numbers []int) []int {
	return slices.DeleteFunc(numbers, func(n int) bool { return n <= s.Recut.Last() })
}

// FindCut returns the newest checkpoints of the groups if they are sound, of one iteration, and no
// message crosses them. It reads all of them. Else it returns an iteration at which there may be
// such a cut, 0 for any.
func FindCut(ctx context.Context, j *image.Job, spec *Resolved) (cut []*image.Manifest, at int, err error) {
	noted, err := ReadBaseline(j, len(spec.Groups))
	if err != nil || noted.FromScratch() {
		return nil, 0, err
	}
	stored, err := ReadStored(j, spec, noted.Base)
	if err != nil {
		return nil, 0, err
	}
	for g, found := range stored.Found {
		if n := len(found); n > 0 && (g >= len(noted.Taken) || noted.Taken[g] <= found[n-1].Number) {
			cut = append(cut, found[n-1])
			continue
		}
		return nil, 0, nil
	}
	if slices.ContainsFunc(cut, func(m *image.Manifest) bool { return m.Iteration != cut[0].Iteration }) {
		return nil, 0, nil
	}
	ahead, err := crosses(spec, cut)
	if ahead > 0 || err != nil {
		return nil, int(cut[0].Iteration) + ahead, err
	}
	for _, m := range cut {
		for _, f := range m.Files {
			if err := j.Check(ctx, m, []string{f.Path}); Unrestorable(err) {
				return nil, 0, nil
			} else if err != nil {
				return nil, 0, err
			}
		}
	}
	return cut, 0, nil
}

// crosses returns for how many iterations, by a guess, ranks have messages at a cut that their
// senders have yet to send: logs replay them. It is 0 only if no message crosses the cut.
func crosses(spec *Resolved, cut []*image.Manifest) (ahead int, err error) {
	of := make([]channel.Vector, spec.NP)
	for _, m := range cut {
		for i := range m.Ranks {
			r := &m.Ranks[i]
			if r.Pending > 0 {
				ahead = max(ahead, 1)
			}
			if !spec.Several() {
				continue
			}
			if of[r.Rank], err = vectorOf(r); err != nil {
				return 0, err
			}
		}
	}
	if !spec.Several() {
		return ahead, nil
	}
	done := uint64(cut[0].Iteration)
	for from := range of {
		for to := range of {
			sent, received := of[from].Sent[to], of[to].Received[from]
			if spec.GroupOf[from] == spec.GroupOf[to] || sent == received {
				continue
			}
			ahead = max(ahead, 1)
			if received > sent {
				each := max(1, sent/done) // in an iteration
				ahead = max(ahead, int((received-sent+each-1)/each))
			}
		}
	}
	return ahead, nil
}

// Deal notes that a job continues from a cut on the ranks, and in the groups, of another
// description, and removes its other checkpoints. The next run empties the logs.
func Deal(j *image.Job, spec, next *Resolved, cut []*image.Manifest) error {
	noted, err := ReadBaseline(j, len(spec.Groups))
	if err != nil {
		return err
	}
	d := &Recut{NP: next.NP, Mapping: next.Mapping, Iteration: int(cut[0].Iteration), WasNP: spec.NP, WasMapping: spec.Mapping}
	for _, m := range cut {
		d.From = append(d.From, m.Number)
		if m.Ranks[0].Rank == 0 && !spec.Several() && spec.Residuals > 0 {
			d.Outputs = uint64(m.Iteration) / uint64(spec.Residuals)
		}
		if m.Ranks[0].Rank == 0 && spec.Several() {
			v, err := vectorOf(&m.Ranks[0])
			if err != nil {
				return err
			}
			d.Outputs = v.Outputs
		}
	}
	none := make([]int, len(next.Groups))
	if err := WriteBaseline(j, Baseline{Base: none, Incarnation: noted.Incarnation, Taken: none, Unlogged: true, Recut: d}); err != nil {
		return err
	}
	if !next.Several() {
		if err := RemoveLogs(j); err != nil {
			return err
		}
	}
	numbers, err := j.Checkpoints()
	if err != nil {
		return err
	}
	numbers = slices.DeleteFunc(numbers, func(n int) bool { return slices.Contains(d.From, n) })
	for _, n := range numbers {
		DropTrace(j, n)
	}
	return j.Drop(numbers...)
}

// Manifest returns the cut as one checkpoint of all the ranks before.
func (d *Recut) Manifest(j *image.Job) (*image.Manifest, error) {
	var all *image.Manifest
	for _, n := range d.From {
		m, err := j.Manifest(n)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = m
			continue
		}
		all.Ranks = append(all.Ranks, m.Ranks...)
		for _, f := range m.Files {
			if !slices.ContainsFunc(all.Files, func(o container.File) bool { return o.Path == f.Path }) {
				all.Files = append(all.Files, f)
			}
		}
	}
	slices.SortFunc(all.Ranks, func(a, b image.Rank) int { return a.Rank - b.Rank })
	for rank := range d.WasNP {
		if len(all.Ranks) != d.WasNP || all.Ranks[rank].Rank != rank {
			return nil, &durable.DamageError{File: ManifestPath(j, d.From[0]), Reason: fmt.Sprintf("checkpoints %v are not of %s", d.From, plainRanks(d.WasNP))}
		}
	}
	return all, nil
}
