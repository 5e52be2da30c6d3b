package dmtcptest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the sample images that are missing")

// samples are two checkpoints of a small job: between them, half of the data of each
// rank changed.
func samples() [2]*Checkpoint {
	o := Options{Seed: 14, Name: "heat", Private: 256 << 10, Shared: 64 << 10, Libraries: 64 << 10, Repeating: true}
	list := [2]*Checkpoint{Job(2, o), Job(2, o)}
	for _, im := range list[1].Images[:2] {
		for i := range im.Areas {
			if a := &im.Areas[i]; a.Start == privateBase {
				a.Data = Changed(a.Data, o.doubles(im.Seed), o.Private/2)
			}
		}
	}
	return list
}

// TestSamples: testdata/dmtcp is what this package writes. With -update it writes what
// is missing there.
func TestSamples(t *testing.T) {
	for i, c := range samples() {
		dir := filepath.Join("../../testdata/dmtcp", []string{"heat-1", "heat-2"}[i])
		want := map[string][]byte{"dmtcp_restart_script.sh": c.script("/scratch/heat")}
		for _, im := range c.Images {
			var b bytes.Buffer
			if _, err := im.WriteTo(&b); err != nil {
				t.Fatal(err)
			}
			want[im.FileName()] = b.Bytes()
		}
		for name, b := range want {
			path := filepath.Join(dir, name)
			got, err := os.ReadFile(path)
			if os.IsNotExist(err) && *update {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				got, err = b, os.WriteFile(path, b, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, b) {
				t.Errorf("%s is not what this package writes", path)
			}
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != len(want) {
			t.Errorf("%s has %d files, want %d: %v", dir, len(files), len(want), err)
		}
	}
}
