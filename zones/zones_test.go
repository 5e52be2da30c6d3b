package zones

import (
	"encoding/json"
	"testing"
)

func TestZoneText(t *testing.T) {
	for _, z := range All() {
		text, err := z.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back Zone
		if err := back.UnmarshalText(text); err != nil || back != z {
			t.Errorf("%v came back as %v, %v", z, back, err)
		}
	}
	var z Zone
	if err := z.UnmarshalText([]byte("stack")); err == nil {
		t.Error("stack is accepted as a zone")
	}
	if _, err := Zone(9).MarshalText(); err == nil {
		t.Error("zone 9 has a name")
	}
}

func TestSizes(t *testing.T) {
	var s Sizes
	for i, z := range All() {
		s.Add(z, int64(i+1))
	}
	if s.Total() != 10 || s.Plus(s).Total() != 20 {
		t.Errorf("sizes %+v, total %d", s, s.Total())
	}
	b, err := json.Marshal(s)
	if want := `{"library":1,"data":2,"shared":3,"iobuffer":4}`; err != nil || string(b) != want {
		t.Errorf("JSON %s, %v; want %s", b, err, want)
	}
}

func TestPageRound(t *testing.T) {
	for n, want := range map[int64]int64{0: 0, 1: 4096, 4096: 4096, 4097: 8192} {
		if got := PageRound(n); got != want {
			t.Errorf("PageRound(%d) = %d, want %d", n, got, want)
		}
	}
}

// TestAccelerator recognises mappings of GPUs by their device files.
func TestAccelerator(t *testing.T) {
	for name, want := range map[string]bool{"/dev/nvidiactl": true, "/dev/nvidia-uvm": true, "/dev/kfd": true, "/dev/dri/renderD128": true,
		"/dev/infiniband/uverbs0": false, "/dev/zero (deleted)": false, "/usr/lib/libcuda.so.450": false, "": false} {
		p := &Process{Areas: []Area{{Name: "[heap]"}, {Name: name, Shared: true}}}
		if got := p.Accelerator() != ""; got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
