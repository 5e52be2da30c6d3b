package coordinator

import (
	"math"
	"testing"

	"ckpt/coordinator/app"
	"ckpt/coordinator/job"
	"ckpt/coordinator/mpi"
	"ckpt/image"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// firstCheckpoint opens the first checkpoint of a job that has ended.
func firstCheckpoint(t *testing.T, opt Options) (*image.Job, *image.Manifest) {
	t.Helper()
	store, err := image.OpenStore(vfs.OS{}, opt.Store)
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.Job(opt.Job)
	if err != nil {
		t.Fatal(err)
	}
	m, err := j.Manifest(1)
	if err != nil {
		t.Fatal(err)
	}
	return j, m
}

// TestStoredShared checks that a drained segment takes a page of the store for each node,
// whatever the ranks have sent each other.
func TestStoredShared(t *testing.T) {
	t.Parallel()
	s := newSpec(t, "bt.S.16", 2)
	s.Iterations, s.Schedule.Count, s.Codec = 6, 1, "none"
	_, _, opt := mustLaunch(t, s, Options{})
	j, m := firstCheckpoint(t, opt)
	stored := int64(0)
	for _, f := range m.Files {
		c, err := j.Open(m, f.Path)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range c.Regions {
			if r.Zone != zones.Shared {
				continue
			}
			for _, e := range c.Extents(i) {
				if !e.Zero {
					stored += e.Bytes
				}
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if stored != 2*mpi.HeaderBytes {
		t.Errorf("%d bytes of the shared zone are stored, want a page for each of 2 nodes", stored)
	}
}

// TestZones compares the zones of ranks with those that the thesis measured in DMTCP
// images under MPICH on one node (León 2022, Tables 5.1 and 5.2). The one of class S, the nightly
// form all of them, is run and its checkpoint looked at.
func TestZones(t *testing.T) {
	tests := []struct {
		app           string
		data, shared  float64 // MiB per rank; 0: not compared
		dataTolerance float64
	}{
		{"bt.B.4", 109.94, 42.45, 0.01},
		{"sp.B.4", 94.30, 0, 0.015},
		{"lu.B.4", 49.55, 0, 0.015},
		{"cg.B.4", 116.59, 0, 0.015},
		{"bt.S.16", 0, 105.01, 0},
	}
	for _, tt := range tests {
		t.Run(tt.app, func(t *testing.T) {
			s := newSpec(t, tt.app, 1)
			ranks := zonesOf(t, s)
			if testkit.Nightly() || tt.data == 0 {
				useOwnProgram(t)
				s.Iterations = 2
				s.Schedule.Count = 1
				_, _, opt := mustLaunch(t, s, Options{})
				_, m := firstCheckpoint(t, opt)
				for i, r := range m.Ranks {
					if r.Zones.Data != ranks[i].Data || r.Zones.Shared != ranks[i].Shared || r.Zones.Library == 0 {
						t.Errorf("rank %d: the checkpoint has %+v, the memory %+v", i, r.Zones, ranks[i])
					}
				}
			}
			for i, r := range ranks {
				data, shared := float64(r.Data)/(1<<20), float64(r.Shared)/(1<<20)
				if i == 0 {
					t.Logf("%s: data %.2f MiB (measured %.2f), shared %.2f MiB (measured %.2f)", tt.app, data, tt.data, shared, tt.shared)
				}
				if tt.data > 0 && math.Abs(data/tt.data-1) > tt.dataTolerance {
					t.Errorf("rank %d: data %.2f MiB, measured %.2f", i, data, tt.data)
				}
				if tt.shared > 0 && math.Abs(shared/tt.shared-1) > 0.02 {
					t.Errorf("rank %d: shared %.2f MiB, measured %.2f", i, shared, tt.shared)
				}
			}
		})
	}
}

// zonesOf returns the zones of the ranks of a job that nobody runs.
func zonesOf(t *testing.T, s job.Spec) []zones.Sizes {
	t.Helper()
	inst, err := resolved(t, s).Instance()
	if err != nil {
		t.Fatal(err)
	}
	var all []zones.Sizes
	for rank := range s.NP {
		mem := mpi.NewMemory()
		if _, err := app.New(inst, rank, func(name string, elem zones.Elem, bytes int64) ([]byte, error) {
			return mem.Alloc(name, zones.Data, elem, bytes)
		}); err != nil {
			t.Fatal(err)
		}
		sizes := mem.Sizes()
		sizes.Add(zones.Shared, mpi.SegmentBytes(mpi.MPICH, s.NP))
		all = append(all, sizes)
		if err := mem.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
