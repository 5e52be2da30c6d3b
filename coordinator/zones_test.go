package coordinator

import (
	"math"
	"testing"

	"ckpt/coordinator/mpi"
	"ckpt/image"
	"ckpt/internal/race"
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
	useOwnProgram(t)
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

// TestZones compares the zones of checkpoints with those that the thesis
// measured in DMTCP images under MPICH on one node (León 2022, Tables 5.1 and
// 5.2).
func TestZones(t *testing.T) {
	useOwnProgram(t)
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
			if (testing.Short() || race.Enabled) && tt.data > 0 {
				t.Skip("half a gigabyte of arithmetic: too slow under the race detector; .ci/run runs it without")
			}
			s := newSpec(t, tt.app, 1)
			s.Iterations = 2
			s.Schedule.Count = 1
			_, _, opt := mustLaunch(t, s, Options{})
			_, m := firstCheckpoint(t, opt)
			for _, r := range m.Ranks {
				data, shared := float64(r.Zones.Data)/(1<<20), float64(r.Zones.Shared)/(1<<20)
				if r.Rank == 0 {
					t.Logf("%s: data %.2f MiB (measured %.2f), shared %.2f MiB (measured %.2f)", tt.app, data, tt.data, shared, tt.shared)
				}
				if tt.data > 0 && math.Abs(data/tt.data-1) > tt.dataTolerance {
					t.Errorf("rank %d: data %.2f MiB, measured %.2f", r.Rank, data, tt.data)
				}
				if tt.shared > 0 && math.Abs(shared/tt.shared-1) > 0.02 {
					t.Errorf("rank %d: shared %.2f MiB, measured %.2f", r.Rank, shared, tt.shared)
				}
			}
		})
	}
}
