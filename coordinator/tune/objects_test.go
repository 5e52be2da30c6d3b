package tune

import (
	"context"
	"errors"
	"math"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/image/pfs"
	"ckpt/image/plan"
)

// images are so many ranks on two nodes that store so many bytes each.
func images(ranks int, bytes int64) Case {
	m := &PlannedMemory{Regions: []string{"data"}}
	for i := range ranks {
		m.Sources = append(m.Sources, plan.Source{Rank: i, Node: 2 * i / ranks, Pieces: []plan.Piece{{Bytes: bytes}}})
	}
	return Case{Memory: m, Mapping: job.Mapping{ranks / 2, ranks / 2}, Settings: plan.Defaults()}
}

// TestObjects counts and prices the requests of a checkpoint by hand: 14 parts of 8 MiB, the
// beginning and the end of an upload for each of 4 ranks.
func TestObjects(t *testing.T) {
	sys, err := pfs.Load("s3")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Predict(context.Background(), sys, images(4, 108<<20))
	if err != nil {
		t.Fatal(err)
	}
	// versitygw counted as many between two checkpoints of bt.B.4 (docs/OBJECTS.md).
	if want := (pfs.Requests{Puts: 4*(14+2+2) + 18, Gets: 4*(1+3) + 29}); f.Requests == nil || *f.Requests != want {
		t.Errorf("%+v, want %+v", f.Requests, want)
	}
	price, month := (90*0.005+45*0.0004)/1000, 4*108./1024*0.023
	if b := f.Bill; b == nil || math.Abs(b.Checkpoint-price) > 1e-12 || math.Abs(b.Month-month) > 1e-12 {
		t.Errorf("%+v, want %g and %g", f.Bill, price, month)
	}

	large, err := Predict(context.Background(), sys, images(4096, 1<<30)) // of which a request stands for several
	parts := int64(4096 * 129)                                            // with the header of the file
	if err != nil || math.Abs(float64(large.Requests.Puts-4096*4-18-parts)) > 0.001*float64(parts) {
		t.Errorf("4,096 ranks: %+v, %v; want %d parts", large.Requests, err, parts)
	}

	var tooMany *pfs.PartsError
	if _, err := Predict(context.Background(), sys, images(2, 80<<30)); !errors.As(err, &tooMany) {
		t.Errorf("80 GiB in parts of 8 MiB: %v", err)
	}
	c := images(4, 1<<20)
	c.Settings.Layout = plan.Shared
	var setting *plan.SettingError
	if _, err := Predict(context.Background(), sys, c); !errors.As(err, &setting) || setting.Setting != "layout" {
		t.Errorf("a shared object: %v", err)
	}
	files, err := pfs.Load("nfs")
	if err != nil {
		t.Fatal(err)
	}
	if f, err := Predict(context.Background(), files, images(4, 1<<20)); err != nil || f.Requests != nil || f.Bill != nil {
		t.Errorf("files: %+v, %+v, %v", f.Requests, f.Bill, err)
	}
}

// TestTuneParts: in 60 MiB of a rank parts of 5 MiB have 8 connections, with which a round of them
// takes 0.15 s and 5 MiB at 87.5 MB/s; longer parts leave fewer connections. A node with more
// memory has more, until its network is full.
func TestTuneParts(t *testing.T) {
	sys, err := pfs.Load("s3")
	if err != nil {
		t.Fatal(err)
	}
	const mib = 1 << 20
	c := images(2, 800*mib-header)
	choice, err := SearchIn(context.Background(), sys, c, Latency, Space{Parts: true})
	if err != nil {
		t.Fatal(err)
	}
	want := 20*(0.15+5*mib/87.5e6) + 0.15 + 0.3 + 0.15
	if f := &choice.Best.Forecast; choice.Best.Parts != (Parts{5 * mib, 8}) || math.Abs(f.Storage-want) > 0.03*want {
		t.Errorf("%+v in %g s, want 5 MiB and 8 connections in %g s", choice.Best.Parts, f.Storage, want)
	}
	if b := choice.Default.Forecast.Buffers; choice.Default.Parts != (Parts{}) || b != (3+openParts)*8*mib {
		t.Errorf("the default %+v takes %d bytes of a node", choice.Default.Parts, b)
	}
	c.Limit = 1 << 30
	more, err := SearchIn(context.Background(), sys, c, Latency, Space{Parts: true})
	least := 800 * mib / float64(sys.Host.Network)
	if err != nil || more.Best.Forecast.Storage > 0.5*want || more.Best.Forecast.Storage < least || more.Best.Forecast.Buffers > c.Limit {
		t.Errorf("with 1 GiB of a node %+v in %g s with %d bytes, %v", more.Best.Parts, more.Best.Forecast.Storage, more.Best.Forecast.Buffers, err)
	}
	c.Limit = 30 * mib // less than the default takes
	var limit *LimitError
	if _, err := SearchIn(context.Background(), sys, c, Latency, Space{Parts: true}); !errors.As(err, &limit) {
		t.Errorf("30 MiB of a node: %v", err)
	}
}
