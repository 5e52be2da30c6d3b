package finding

import (
	"slices"
	"testing"
)

// One file for many small ones spares all questions about their status. Those about
// large files remain a finding of their own.
func TestStatusOfSmallFiles(t *testing.T) {
	for _, c := range []struct {
		bytes int64
		want  []string
	}{{2000, []string{"CK23"}}, {1 << 20, []string{"CK22"}}} {
		r := &Run{Wall: 10, Time: 10, Timed: true, Metadata: 0.9}
		for range 200 {
			f := File{Ranks: 1, Touchers: 1, Opens: 1, OpenClose: Work{Count: 2, Time: 1e-3}, Stats: Work{Count: 3, Time: 3e-3}}
			f.Data[1].Work = Work{Count: 1, Bytes: c.bytes, Time: 2e-2, Wall: 2e-2}
			r.Files = append(r.Files, f)
		}
		r.Data[1].Work = Work{Count: 200, Bytes: 200 * c.bytes, Time: 4, Wall: 4}
		r.OpenClose = Work{Count: 400, Time: 0.2, Wall: 0.2}
		r.Stats = Work{Count: 600, Time: 0.6, Wall: 0.6}
		var got []string
		for _, f := range Find(r, Default()) {
			if slices.Contains([]string{"CK22", "CK23"}, f.Code) {
				got = append(got, f.Code)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("files of %d bytes: %v, want %v", c.bytes, got, c.want)
		}
	}
}

// TestMetadataRemedies: no remedy is about operations, or files, that there are not.
func TestMetadataRemedies(t *testing.T) {
	for _, c := range []struct {
		files, stats int
		advice       string
		hints        []Hint
	}{
		{1, 0, "Open each file once.", []Hint{keepOpen}},
		{1, 400, "Open each file once, and ask once what it is like.", []Hint{keepOpen, statOnce}},
		{2, 0, "Fewer, larger files; open each once.", []Hint{keepOpen, pack}},
	} {
		r := &Run{Wall: 10, Time: 10, Timed: true, Metadata: 2, Files: make([]File, c.files)}
		r.OpenClose = Work{Count: 800, Time: 1, Wall: 1}
		r.Stats.Count = int64(c.stats)
		r.Others = Work{Count: 400, Time: 1, Wall: 1}
		found := Find(r, Default())
		if len(found) != 1 || found[0].Code != "CK04" || found[0].Advice != c.advice || !slices.Equal(found[0].Hints, c.hints) {
			t.Errorf("%+v: %+v", c, found)
		}
	}
}
