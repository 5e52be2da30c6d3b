package pfs

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/image/iosched"
	"ckpt/image/plan"
)

func TestPresets(t *testing.T) {
	for _, name := range Presets() {
		s, err := Load(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s.Name != name || s.Title == "" || s.Source == "" {
			t.Errorf("%s: name %q, title %q, source %q", name, s.Name, s.Title, s.Source)
		}
		var out bytes.Buffer
		if err := s.Encode(&out); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "storage.yaml")
		if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := Load(file)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out.Bytes())
		}
		if d := cmp.Diff(s, again); d != "" {
			t.Errorf("%s: read back:\n%s", name, d)
		}
	}
}

const small = "name: x\ntargets: {count: 1, rate: 100MB/s}\n"

func TestReadRefuses(t *testing.T) {
	for _, test := range []struct{ src, want string }{
		{"", "empty"},
		{"name: x", "targets.count: must be at least 1"},
		{"targets: {count: 1, rate: 1MB/s}", "name: missing"},
		{"name: x\ntargets: {count: 1}", "targets.rate: must be more than 0"},
		{"name: x\ntargets: {count: -1, rate: 1MB/s}", "must be 0 to"},
		{"name: x\ntargets: {count: 1, rate: 100}", `"100": invalid rate, want one like 500MB/s`},
		{"name: x\ntargets: {count: 1, rate: 1MB/s, seek: soon}", `want one like 0.5ms`},
		{small + "speed: 1", "field speed not found"},
		{small + "rpc: much", `want one like 4MiB`},
		{small + "rpc: 1KiB", "rpc: 1KiB: must be at least 4KiB"},
		{small + "locks: {kind: byte-range}", "no such kind, want none or extent-to-end"},
		{small + "routers: {count: 2}", "routers.rate: missing"},
		{small + "routers: {rate: 2MB/s}", "routers.count: missing"},
		{small + "servers: {count: 2}", "more than the 1 targets"},
		{small + "servers: {write_behind: true}", "servers.cache: missing"},
		{small + "host: {processors: 99999999}", "host.processors: 99999999: must be 0 to"},
		{small + "host: {stream: 0.1B/s}", "host.stream: 0.1B/s: must be 0 or at least 1"},
		{small + "metadata: {creates: 1e-9}", "metadata.creates: 1e-09: must be 0 or at least 1e-06"},
		{small + "metadata: {creates: .nan}", "metadata.creates: NaN"},
		{small + "metadata: {creates: -.inf}", "metadata.creates: -Inf"},
		{small + "misfit: {scatter: -1}", "misfit.scatter: -1"},
		{small + "codecs: {gzip: {pack: 1MB/s, ratio: -2}}", "codecs.gzip.ratio: -2"},
		{small + "origins: {targets.speed: measured}", "origins: targets.speed: no such field"},
		{"name: x\ntargets: {count: 1, rate: 1MB/s, sharing: [{writers: 2, factor: 1}, {writers: 2, factor: 1}]}", "writers must ascend"},
		{"name: x\ntargets: {count: 1, rate: 1MB/s, sharing: [{writers: 2}]}", "factor must be more than 0"},
		{"name: x\ntargets: {count: 1, rate: 1MB/s, stragglers: {share: 2}}", "stragglers.share"},
		{"name: x\ntargets: {count: 1, rate: 1MB/s, stragglers: {factor: 2}}", "stragglers.factor"},
		{small + "scheduler: {quantum: 1MiB}", "scheduler.policy: missing, want one of "},
		{small + "scheduler: {policy: rr, quantum: 1}", "scheduler.quantum: 1: must be at least 4KiB"},
		{small + "scheduler: {policy: none}", `scheduler: unknown policy "none" (want `},
		{small + "scheduler: {policy: fifo, without: [seeks]}", `scheduler.without: "seeks": no such part of mlf, want one of aggregate-wait, aggregates, `},
		{small + "scheduler: {policy: fifo, per_request: 1e7}", "scheduler.per_request: 10000000s: must be 0 to"},
		{small + "---\nname: y", "text follows"},
	} {
		if s, err := Read(strings.NewReader(test.src)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %+v, %v; want an error with %q", test.src, s, err, test.want)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, want := range map[string]string{
		"tape":        `storage "tape": no such preset (want one of `,
		"./none.yaml": "storage: open ./none.yaml: no such file",
		"../presets":  "storage: ",
	} {
		if _, err := Load(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestFieldsInDocs finds every key of a description in its documentation, and every
// preset.
func TestFieldsInDocs(t *testing.T) {
	b, err := os.ReadFile("../../docs/STORAGE.md")
	if err != nil {
		t.Fatal(err)
	}
	docs, found := string(b), 0
	known := make(map[string]bool)
	fieldsOf("", reflect.TypeFor[System](), known)
	for key := range known {
		leaf := key[strings.LastIndex(key, ".")+1:]
		if strings.Contains(docs, "`"+key+"`") || strings.Contains(docs, "`"+leaf+"`") {
			found++
			continue
		}
		switch key {
		case "host", "host.gather", "routers", "servers", "servers.read_ahead", "targets", "targets.stragglers", "metadata", "locks", "scheduler", "service", "misfit":
			continue // groups, of which the keys are there
		}
		t.Errorf("%s is not in docs/STORAGE.md", key)
	}
	for _, name := range Presets() {
		if !strings.Contains(docs, "`"+name+"`") {
			t.Errorf("preset %s is not in docs/STORAGE.md", name)
		}
	}
	if found < 40 {
		t.Errorf("only %d keys were found", found)
	}
}

// FuzzRead has the decoder read anything. It can write an accepted description, and
// read it back as the same.
func FuzzRead(f *testing.F) {
	for _, name := range Presets() {
		src, err := presets.ReadFile("presets/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Add([]byte(small + "host: {stream: 1.5B/s, latency: 1e-9}"))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := Read(bytes.NewReader(src))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := s.Encode(&out); err != nil {
			t.Fatal(err)
		}
		again, err := Read(&out)
		if err != nil {
			t.Fatalf("%v\n%s", err, src)
		}
		if d := cmp.Diff(s, again); d != "" {
			t.Fatal(d)
		}
	})
}

// FuzzRun simulates on whatever can be described. Every figure is a number.
func FuzzRun(f *testing.F) {
	for _, name := range Presets() {
		src, err := presets.ReadFile("presets/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src, uint8(0))
	}
	f.Add([]byte(small+"rpc: 4KiB\nin_flight: 1\nlocks: {kind: extent-to-end, callback: 1}\nsync: 1e6"), uint8(255))
	for _, name := range iosched.Names() {
		f.Add([]byte(small+"scheduler: {policy: "+name+", quantum: 4KiB, max_window: 1ms}\nservers: {write_behind: true, cache: 1MiB}"), uint8(1))
	}
	f.Add([]byte("name: x\ntargets: {count: 1, rate: 1B/s, stragglers: {share: 1, factor: 1e-6}}\nscheduler: {policy: mlf}\nin_flight: 1"), uint8(8))
	f.Fuzz(func(t *testing.T, src []byte, choice uint8) {
		s, err := Read(bytes.NewReader(src))
		if err != nil || s.Targets.Count > 1000 {
			return
		}
		set := plan.Settings{
			Layout:   []plan.Layout{plan.PerRank, plan.Aggregated, plan.Shared}[choice>>4%3],
			Strategy: []plan.Strategy{plan.TwoPhase, plan.Dynamic, plan.Static, plan.Individual}[choice>>6],
			P1:       choice&1 > 0, P2: choice&2 > 0, P3: choice&4 > 0, StripeCount: 2,
		}
		p := mustPlan(t, sources(4, 2, 1<<20), set)
		r := mustRun(t, s, Job{Plan: p, Sync: true, Read: choice&8 > 0})
		j := r.Jobs[0]
		if j.Bytes != 4<<20 || !(j.Seconds >= 0) || math.IsInf(j.Seconds, 0) || !(j.Rate >= 0) || math.IsInf(j.Rate, 0) {
			t.Errorf("%+v", j)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	})
}
