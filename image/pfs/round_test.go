package pfs

import (
	"strings"
	"testing"
)

func TestRoundedDescriptionIsShort(t *testing.T) {
	s := &System{Name: "x", Sync: 0.0014036310694, Codecs: map[string]CodecSpeed{"zstd": {Pack: 363778510.82, Ratio: 0.76376415}}}
	s.Targets = Targets{Count: 1, Rate: 845123765.84, PerRequest: 1.2e-14, Sharing: []Sharing{{1, 1}, {4, 1.25820675}}}
	s.Round(3)
	var b strings.Builder
	if err := s.Encode(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"rate: 845MB/s", "sync: 1.4ms", "pack: 364MB/s", "ratio: 0.764", "factor: 1.26"} {
		if !strings.Contains(b.String(), want+"\n") {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if s.Targets.PerRequest != 0 {
		t.Errorf("a time of %v is left", s.Targets.PerRequest)
	}
}
