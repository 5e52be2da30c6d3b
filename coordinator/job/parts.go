package job

import (
	"context"
	"fmt"
	"slices"

	"ckpt/coordinator/protocol/channel"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/zones"
	"ckpt/zones/global"
)

// Dealt reports whether the regions of a rank, of np, differ from those that it had in a
// checkpoint, and have to be put together from the parts of all its ranks.
func Dealt(m *image.Manifest, np, rank int, regions []zones.Region) bool {
	i := slices.IndexFunc(m.Ranks, func(r image.Rank) bool { return r.Rank == rank })
	if m.NP != np || i < 0 {
		return true
	}
	had := m.Ranks[i].Global
	return slices.ContainsFunc(regions, func(r zones.Region) bool {
		return r.Part != nil && slices.ContainsFunc(had, func(g image.GlobalPart) bool { return g.Region == r.Name && !g.Part.Equal(r.Part) })
	})
}

// A DealError says that a checkpoint cannot be dealt to another number of ranks.
type DealError struct {
	Text, Fix string
}

func (e *DealError) Error() string { return e.Text }

func (e *DealError) Is(target error) bool { return target == container.ErrRegionsDiffer }

func (e *DealError) Hint() string { return e.Fix }

// CheckParts checks that the regions of a rank, of np, can be put together from a checkpoint, and
// are all that it has.
func CheckParts(m *image.Manifest, np, rank int, regions []zones.Region) error {
	has := make(map[string]bool)
	for _, r := range regions {
		has[r.Name] = true
		if r.Part == nil && r.Blocks == nil && !r.Replicated && m.NP != np {
			return ofOneRank(m, r.Name, rank, np)
		}
	}
	for _, r := range m.Ranks {
		for _, g := range r.Global {
			if !has[g.Region] {
				return missing(m, g.Region, rank)
			}
		}
		for _, name := range r.Replicated {
			if !has[name] {
				return missing(m, name, rank)
			}
		}
	}
	return nil
}

func ofOneRank(m *image.Manifest, region string, rank, np int) error {
	return &DealError{Text: fmt.Sprintf("region %q of rank %d belongs to that rank alone: %s cannot resume from checkpoint %d of %d", region, rank, plainRanks(np), m.Number, m.NP),
		Fix: fmt.Sprintf("start %s again; or protect the region with ckpt_protect_global or ckpt_protect_replicated in later runs", plainRanks(m.NP))}
}

func missing(m *image.Manifest, region string, rank int) error {
	return &DealError{Text: fmt.Sprintf("checkpoint %d has region %q, which rank %d does not protect", m.Number, region, rank),
		Fix: "protect it on every rank, on those without cells of it too"}
}

func plainRanks(n int) string {
	if n == 1 {
		return "1 rank"
	}
	return fmt.Sprintf("%d ranks", n)
}

// CheckDealable checks that np ranks can resume from a checkpoint: unless it has as many, all its
// regions have to be parts of arrays or replicated.
func CheckDealable(j *image.Job, m *image.Manifest, np int) error {
	if m.NP == np {
		return nil
	}
	shared := make([]map[string]bool, m.NP)
	for _, r := range m.Ranks {
		shared[r.Rank] = make(map[string]bool)
		for _, g := range r.Global {
			shared[r.Rank][g.Region] = true
		}
		for _, name := range r.Replicated {
			shared[r.Rank][name] = true
		}
	}
	return j.EachRegion(m, func(rank int, r zones.Region) error {
		if rank >= 0 && rank < len(shared) && !shared[rank][r.Name] {
			return ofOneRank(m, r.Name, rank, np)
		}
		return nil
	})
}

// CheckArrays checks that the parts of all ranks make up whole arrays. In a checkpoint of some
// ranks, the parts must be able to belong to the same arrays.
func CheckArrays(m *image.Manifest) error {
	parts := make(map[string][]global.Held)
	var names []string
	for i := range m.Ranks {
		r := &m.Ranks[i]
		for k := range r.Global {
			name := r.Global[k].Region
			if parts[name] == nil {
				names = append(names, name)
			}
			parts[name] = append(parts[name], global.Held{Rank: r.Rank, Part: &r.Global[k].Part})
		}
	}
	for _, name := range names {
		if len(parts[name]) != len(m.Ranks) {
			return fmt.Errorf("array %q: %d of %d ranks protect it", name, len(parts[name]), len(m.Ranks))
		}
		check := global.CheckTiles
		if len(m.Ranks) < m.NP {
			check = global.CheckApart
		}
		if err := check(parts[name]); err != nil {
			return fmt.Errorf("array %q: %w", name, err)
		}
	}
	for _, r := range m.Ranks {
		if !slices.Equal(r.Replicated, m.Ranks[0].Replicated) {
			return fmt.Errorf("ranks %d and %d protect different replicated regions: %q and %q", m.Ranks[0].Rank, r.Rank, m.Ranks[0].Replicated, r.Replicated)
		}
	}
	return nil
}

// checkDescribed checks that the ranks of a simulated job hold the parts that its description
// gives them. These make up whole arrays, in any recovery line.
func (s *Resolved) checkDescribed(m *image.Manifest) error {
	if s.Program != nil || s.Origin != "" || m.NP != s.NP {
		return nil
	}
	for i := range m.Ranks {
		for k := range m.Ranks[i].Global {
			inst, err := s.Instance()
			if err != nil {
				return err
			}
			r, part := &m.Ranks[i], &m.Ranks[i].Global[k]
			at := slices.IndexFunc(inst.Arrays, func(a dataset.Array) bool { return a.Name == part.Region && a.Layout != nil })
			if at < 0 || !part.Part.Equal(inst.Arrays[at].Layout.Part(r.Rank)) {
				return fmt.Errorf("array %q: rank %d holds other cells of it in the job", part.Region, r.Rank)
			}
		}
	}
	return nil
}

// BlocksOn returns which of so many ranks held which elements of an array in blocks.
func (s *Resolved) BlocksOn(np int, region string) ([]global.Held, error) {
	then := s.OnRanks(np)
	inst, err := then.Evaluate()
	if err != nil {
		return nil, err
	}
	for _, a := range inst.Arrays {
		if a.Name == region && a.Blocks != nil {
			b, err := a.Blocks()
			if err != nil {
				return nil, err
			}
			return b.Held()
		}
	}
	return nil, fmt.Errorf("array %q has no blocks on %s", region, plainRanks(np))
}

// mayBeDealt reports whether a checkpoint is of another number of ranks than the run, and still
// of this job.
func (s *Resolved) mayBeDealt(m *image.Manifest) bool {
	return m.NP != s.NP && (s.Program != nil && s.Origin == "" || s.AnyRanks())
}

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

func everyRank(np int) []int {
	list := make([]int, np)
	for i := range list {
		list[i] = i
	}
	return list
}
