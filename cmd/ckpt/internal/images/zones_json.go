package images

import (
	"slices"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/zones"
	"ckpt/zones/source"
)

// zonesLine is a process in ckpt zones --json.
type zonesLine struct {
	Source     string             `json:"source"`
	Format     string             `json:"format"`
	Process    string             `json:"process"`
	Executable string             `json:"executable,omitempty"`
	PID        int                `json:"pid"`
	Role       zones.Role         `json:"role"`
	Rank       *int               `json:"rank,omitempty"`
	Host       string             `json:"host,omitempty"`
	MPI        string             `json:"mpi,omitempty"`
	Zones      zones.Sizes        `json:"zones"`
	Runtime    int64              `json:"runtime_bytes"`
	Kernel     int64              `json:"kernel_bytes"` // never stored
	Companion  int64              `json:"companion_bytes"`
	Overhead   int64              `json:"overhead_bytes"`
	Image      int64              `json:"image_bytes"`
	File       int64              `json:"file_bytes"`
	Totals     *zonesTotals       `json:"totals,omitempty"`
	Checkpoint *source.Checkpoint `json:"checkpoint_summary,omitempty"`
	Areas      []zones.Area       `json:"areas"`
}

// zonesTotals are the sizes of a live process in other respects.
type zonesTotals struct {
	Virtual  int64 `json:"virtual_bytes"`
	Resident int64 `json:"resident_bytes"`
	Dirty    int64 `json:"dirty_bytes"`
	Occupied int64 `json:"occupied_bytes"`
}

func totalsOf(p *zones.Process) *zonesTotals {
	var t zonesTotals
	for i := range p.Areas {
		a := &p.Areas[i]
		if a.Resident < 0 {
			return nil
		}
		t.Virtual += a.Bytes()
		t.Resident += a.Resident
		t.Dirty += a.Dirty
		t.Occupied += a.Occupied
	}
	return &t
}

func printZonesJSON(g *ui.Globals, ps []*zones.Process, checkpoints []source.Checkpoint, single bool) error {
	lines := make([]zonesLine, len(ps))
	for i, p := range ps {
		l := zonesLine{Source: p.Source, Format: p.Format, Process: p.Name, Executable: p.Exe, PID: p.PID, Role: p.Role,
			Host: p.Host, MPI: p.MPI, Zones: p.Sizes(), Runtime: p.Stored(zones.Runtime), Companion: p.Companion(),
			Overhead: p.Overhead, Image: p.Image(), File: p.FileBytes, Totals: totalsOf(p), Areas: p.Areas}
		if p.Rank >= 0 {
			l.Rank = &p.Rank
		}
		if l.Areas == nil {
			l.Areas = []zones.Area{}
		}
		for k := range p.Areas {
			if p.Areas[k].Class == zones.Kernel {
				l.Kernel += p.Areas[k].Bytes()
			}
		}
		if !single {
			k := slices.IndexFunc(checkpoints, func(c source.Checkpoint) bool { return c.Group == p.Group })
			l.Checkpoint = &checkpoints[k]
		}
		lines[i] = l
	}
	if single {
		return g.PrintJSON(lines[0])
	}
	return g.PrintJSON(lines)
}
