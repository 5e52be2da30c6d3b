package rank

import (
	"bytes"
	"context"
	"slices"

	"ckpt/coordinator/app"
	"ckpt/coordinator/job"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/zones"
)

// divide returns the regions of the data zone that the application has to save after iteration
// iter: this rank's, and those that are the same on all ranks. Among the latter is the progress,
// in the memory of extra.
func (s *state) divide(extra *mpi.Memory, iter int) (own, same []zones.Region, err error) {
	inst, err := s.spec.Instance()
	if err != nil {
		return nil, nil, err
	}
	if _, err := extra.Alloc(app.ProgressRegion, zones.Data, zones.Bytes, int64(len(s.app.Progress()))); err != nil {
		return nil, nil, err
	}
	for _, r := range s.zone(zones.Data) {
		switch stored, replicated := s.spec.Stores(inst, r.Name, iter); {
		case stored && replicated:
			same = append(same, r)
		case stored:
			own = append(own, r)
		}
	}
	return own, append(same, s.described(extra.Regions()[0])), nil
}

// saved returns what this rank stores at application level, and with it what another rank stores
// for all. On nodes each rank stores all of it: it has to find it again without the others.
func (s *state) saved(extra *mpi.Memory) (stored, all []zones.Region, err error) {
	own, same, err := s.divide(extra, s.app.Iteration())
	all = append(slices.Clip(own), same...)
	if err != nil || s.spec.Tier == nil && s.rank != s.spec.Groups[s.spec.GroupOf[s.rank]][0] {
		return own, all, err
	}
	copy(extra.Regions()[0].Mem, s.app.Progress())
	return all, all, nil
}

// restoreSaved completes the memory of an initialised rank. The rank reads its own arrays from
// its file. It reads the arrays that all ranks have alike from its file too, or, if they are not
// there, from the file of the rank that stored them for all. It returns the messages that had
// arrived.
func (s *state) restoreSaved(ctx context.Context, m *image.Manifest, was *image.Rank) (pending []byte, err error) {
	extra := mpi.NewMemory()
	defer extra.Close()
	own, same, err := s.divide(extra, int(m.Iteration))
	if err != nil {
		return nil, err
	}
	progress := extra.Regions()[0].Mem[:len(s.app.Progress())]
	if was.Pending > 0 {
		if pending, err = extra.Alloc(job.PendingRegion, zones.Data, zones.Bytes, was.Pending); err != nil {
			return nil, err
		}
		own = append(own, extra.Regions()[1])
	}
	owner := job.Owner(m)
	all := owner.Rank == s.rank
	if !all && was.File != "" {
		n, err := s.images.RegionBytes(m, was.File, s.rank, app.ProgressRegion)
		if err != nil {
			return nil, err
		}
		all = n > 0
	}
	if all {
		own = append(own, same...)
	} else if err := s.job.Load(ctx, m, owner.File, owner.Rank, same, container.LoadOptions{Some: true, Progress: s.progress}); err != nil {
		return nil, err
	}
	if len(own) > 0 {
		if err := s.images.Load(ctx, m, was.File, s.rank, own, container.LoadOptions{Progress: s.progress}); err != nil {
			return nil, err
		}
	}
	s.app.Resume(progress)
	return bytes.Clone(pending), nil
}

// described adds to a region what the rank knows of the others' parts.
func (s *state) described(r zones.Region) zones.Region {
	if s.app != nil && r.Zone == zones.Data {
		r.Part, r.Replicated, r.Blocks = s.app.Part(r.Name), s.app.Replicated(r.Name), s.app.Blocks(r.Name)
	}
	return r
}

// tell reports which regions are parts of arrays of all ranks, and which are replicated.
func tell(report *wire.WriteReport, regions []zones.Region) {
	report.Global, report.Replicated = nil, nil
	for _, r := range regions {
		if r.Part != nil {
			report.Global = append(report.Global, image.GlobalPart{Region: r.Name, Part: *r.Part})
		}
		if r.Replicated {
			report.Replicated = append(report.Replicated, r.Name)
		}
	}
	slices.Sort(report.Replicated)
}

// restoreRecut fills the memory from the cut that a job of several groups was dealt from.
func (s *state) restoreRecut(ctx context.Context) error {
	defer s.measure()()
	s.images = s.job
	m, err := s.spec.Recut.Manifest(s.job)
	if err != nil {
		return err
	}
	defer s.reading(ctx, m)()
	defer s.tracing(m.Number)()
	defer s.keeping()()
	return s.restoreDealt(ctx, m)
}

// computedAnew reports whether a rank of another number of them has no use for a region.
func computedAnew(r zones.Region) bool { return r.Part == nil && r.Blocks == nil && !r.Replicated }

// restoreDealt fills the memory from a checkpoint of another number of ranks. It checks a share
// of the old regions that no rank needs.
func (s *state) restoreDealt(ctx context.Context, m *image.Manifest) error {
	opt := container.LoadOptions{Progress: s.progress}
	regions := s.zone(zones.Data)
	extra := mpi.NewMemory()
	defer extra.Close()
	if s.spec.SavesArrays() {
		own, same, err := s.divide(extra, int(m.Iteration))
		if err != nil {
			return err
		}
		regions = append(own, same...)
	} else if anew := slices.ContainsFunc(regions, computedAnew); anew {
		// As at application level: what belongs to one rank is computed, not read.
		if s.cfg.From > 0 { // else the fields are the initial ones
			if err := s.app.Init(); err != nil {
				return err
			}
		}
		regions = slices.DeleteFunc(regions, computedAnew)
		defer func() { s.app.Resume(s.app.Progress()) }()
	}
	if err := s.restoreParts(ctx, m, regions, opt); err != nil {
		return err
	}
	for k := s.rank; k < m.NP; k += s.spec.NP {
		if err := s.job.CheckRest(ctx, m, &m.Ranks[k], regions); err != nil {
			return err
		}
	}
	if s.spec.SavesArrays() {
		s.app.Resume(extra.Regions()[0].Mem[:len(s.app.Progress())])
	}
	return nil
}
