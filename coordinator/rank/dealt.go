package rank

import (
	"context"
	"slices"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/zones"
)

// described adds to a region what the rank knows of those of the other ranks.
func (s *state) described(r zones.Region) zones.Region {
	if s.app != nil && r.Zone == zones.Data {
		r.Part, r.Replicated = s.app.Part(r.Name), s.app.Replicated(r.Name)
	}
	return r
}

// tell reports which regions are parts of arrays of all ranks, and which all have alike.
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

// restoreDealt fills the memory from a checkpoint of another number of ranks. It checks a share
// of those old regions that no rank needs.
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
