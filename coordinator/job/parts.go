package job

import (
	"fmt"
	"slices"

	"ckpt/coordinator/mpi"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/image/container"
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
	had, arrays := map[string]*global.Part{}, map[string]bool{}
	for k := range m.Ranks[i].Global {
		g := &m.Ranks[i].Global[k]
		had[g.Region], arrays[g.Name(g.Region)] = &g.Part, true
	}
	return slices.ContainsFunc(regions, func(r zones.Region) bool {
		return r.Part != nil && arrays[r.Part.Name(r.Name)] && !r.Part.Equal(had[r.Name])
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
	has, lists := make(map[string]bool), Lists(regions)
	for _, r := range regions {
		has[r.Name] = true
		if r.Part != nil {
			has[r.Part.Name(r.Name)] = true
		}
		if r.Part == nil && r.Blocks == nil && !r.Replicated && m.NP != np && !lists[r.Name] {
			return ofOneRank(m, r.Name, rank, np)
		}
	}
	for _, r := range m.Ranks {
		for _, g := range r.Global {
			if name := g.Name(g.Region); !has[name] {
				return missing(m, name, rank)
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

// Lists returns the names of regions that list the cells of others. They say what a rank wants:
// no checkpoint fills them for another number of ranks.
func Lists(regions []zones.Region) map[string]bool {
	lists := make(map[string]bool)
	for _, r := range regions {
		if r.Part != nil && r.Part.Index != nil {
			lists[global.Listed(r.Name)] = true
		}
	}
	return lists
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
			if g.Index != nil {
				shared[r.Rank][global.Listed(g.Region)] = true
			}
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
			name := r.Global[k].Name(r.Global[k].Region)
			if parts[name] == nil {
				names = append(names, name)
			}
			parts[name] = append(parts[name], global.Held{Rank: r.Rank, Part: &r.Global[k].Part})
		}
	}
	for _, name := range names {
		ranks := make(map[int]bool)
		for _, h := range parts[name] {
			ranks[h.Rank] = true
		}
		if len(ranks) != len(m.Ranks) {
			return fmt.Errorf("array %q: %d of %d ranks protect it", name, len(ranks), len(m.Ranks))
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

func everyRank(np int) []int {
	list := make([]int, np)
	for i := range list {
		list[i] = i
	}
	return list
}

// StagingBytes returns the size of the staging buffer of a rank with so much data.
func (s *Resolved) StagingBytes(data int64) int64 {
	if s.Staging > 0 {
		return zones.PageRound(s.Staging)
	}
	return zones.PageRound(data) + segmentStaging
}

// segmentStaging is room for the part of its segment that the first rank of a node stores.
const segmentStaging = 16 << 20

// Memory returns the bytes of the data zones of all ranks and of the segments that the ranks of
// each group share on each node; 0 for a program, whose memory is unknown.
func (s *Resolved) Memory() (data, shared int64, err error) {
	if s.Program != nil {
		return 0, 0, nil
	}
	inst, err := s.Instance()
	if err != nil {
		return 0, 0, err
	}
	for _, ranks := range s.Groups {
		onNode := make(map[int]int)
		for _, r := range ranks {
			onNode[s.Nodes[r]]++
		}
		for _, n := range onNode {
			shared += mpi.SegmentBytes(s.Implementation, n)
		}
	}
	return inst.TotalBytes(), shared, nil
}
