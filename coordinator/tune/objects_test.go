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
