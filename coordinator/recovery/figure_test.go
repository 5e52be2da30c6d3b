package recovery_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ckpt/coordinator/recovery"
)

// go test ./coordinator/recovery -out DIR leaves the drawings there.
var out = flag.String("out", "", "directory for the drawings")

func figure(t *testing.T, h *recovery.History, failed []int, mode recovery.InTransit, title string) recovery.Figure {
	t.Helper()
	opt := recovery.Options{InTransit: mode}
	line, err := recovery.Find(h, failed, opt)
	if err != nil {
		t.Fatal(err)
	}
	garbage, err := recovery.Collect(h, opt)
	if err != nil {
		t.Fatal(err)
	}
	useless, err := recovery.Useless(h)
	if err != nil {
		t.Fatal(err)
	}
	return recovery.Figure{History: h, Line: line, Garbage: garbage, Useless: useless, Title: title}
}

// job is a random past: neighbours exchange messages, each rank checkpoints when it
// likes.
func job(ranks, steps int, seed uint64) *recovery.History {
	rng := rand.New(rand.NewPCG(seed, 0))
	rec := recovery.NewRecorder(ranks)
	for range steps {
		r := rng.IntN(ranks)
		peer := (r + ranks + 1 - 2*rng.IntN(2)) % ranks
		switch k := rng.IntN(20); {
		case k < 7:
			rec.Send(r, peer)
		case k < 15:
			rec.Receive(r, peer)
		case k < 17:
			rec.Iterate(r)
		case k < 19:
			rec.Checkpoint(r)
		default:
			rec.Log(r)
		}
	}
	return rec.History()
}

// TestFigures draws jobs of all sizes, twice: the same each time, well-formed,
// and with what must be in it.
func TestFigures(t *testing.T) {
	small := job(8, 400, 4)
	unknown := &recovery.History{Ranks: slices.Clone(small.Ranks)}
	unknown.Ranks[3].Current = nil
	for name, c := range map[string]struct {
		figure recovery.Figure
		texts  []string
	}{
		"domino":   {figure(t, recovery.Domino(), []int{2}, recovery.Allowed, "The domino effect"), []string{"The domino effect", "rank 2", "work lost", "checkpoint, useless", "orphan: forces a rank back"}},
		"zigzag":   {figure(t, recovery.Zigzag(), []int{1}, recovery.Allowed, "A zigzag cycle"), []string{"recovery line", "message, undone"}},
		"lost":     {figure(t, small, []int{3}, recovery.Forbidden, ""), []string{"would be lost: forces a rank back", "rebuilt from a log"}},
		"replayed": {figure(t, small, []int{3}, recovery.Allowed, ""), []string{"in transit: from the log", "checkpoint, removable", "message, undone"}},
		"unknown":  {figure(t, unknown, []int{3}, recovery.Allowed, ""), []string{"failure"}},
		"crowd":    {figure(t, job(32, 3000, 4), []int{3, 5}, recovery.Allowed, ""), []string{"other messages are not drawn"}},
		"relay":    {figure(t, recovery.Relay(64, 6), []int{17}, recovery.Forbidden, ""), []string{">63<"}},
		"past":     {recovery.Figure{History: recovery.Domino()}, []string{"message"}},
		"start":    {recovery.Figure{History: recovery.NewRecorder(1).History()}, []string{"order of the checkpoints"}},
	} {
		for format, magic := range map[string]string{"svg": "<?xml", "png": "\x89PNG", "pdf": "%PDF"} {
			if format != "svg" && name != "domino" && *out == "" {
				continue // they draw the same
			}
			var b, again bytes.Buffer
			if err := recovery.Draw(&b, format, c.figure); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := recovery.Draw(&again, format, c.figure); err != nil || !bytes.HasPrefix(b.Bytes(), []byte(magic)) {
				t.Errorf("%s: %v, begins with %q", name, err, b.Bytes()[:8])
			}
			if *out != "" {
				if err := os.WriteFile(filepath.Join(*out, name+"."+format), b.Bytes(), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			if format == "pdf" {
				continue // has its date in it
			}
			if !bytes.Equal(b.Bytes(), again.Bytes()) {
				t.Errorf("%s.%s is another one each time", name, format)
			}
			if format == "svg" {
				checkSVG(t, name, b.Bytes(), c.texts)
			}
		}
	}
}

func checkSVG(t *testing.T, name string, b []byte, texts []string) {
	t.Helper()
	dec := xml.NewDecoder(bytes.NewReader(b))
	for {
		_, err := dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for _, text := range texts {
		if !bytes.Contains(b, []byte(text)) {
			t.Errorf("%s does not have %q", name, text)
		}
	}
	if bytes.Contains(b, []byte("NaN")) || bytes.Contains(b, []byte("Inf")) {
		t.Errorf("%s draws what has no place", name)
	}
}

func TestDrawErrors(t *testing.T) {
	full := errors.New("full")
	for want, draw := range map[string]func() error{
		"draw a history: it has no ranks": func() error { return recovery.Draw(io.Discard, "svg", recovery.Figure{History: &recovery.History{}}) },
		"draw a history: rank 0 has no checkpoint": func() error {
			return recovery.Draw(io.Discard, "svg", recovery.Figure{History: &recovery.History{Ranks: make([]recovery.Rank, 2)}})
		},
		"draw a history: unsupported format: \"gif\"": func() error { return recovery.Draw(io.Discard, "gif", recovery.Figure{History: recovery.Domino()}) },
		"draw a history: full":                        func() error { return recovery.Draw(iotest{full}, "png", recovery.Figure{History: recovery.Domino()}) },
	} {
		if err := draw(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

type iotest struct{ err error }

func (w iotest) Write([]byte) (int, error) { return 0, w.err }
