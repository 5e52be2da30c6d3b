package coordinator

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol/channel"
	"ckpt/image"
	"ckpt/image/codec"
	"ckpt/image/plan"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

var update = flag.Bool("update", false, "write the golden stores that are missing")

// goldenDir holds a store per kind, as launch has written it. A new version reads and
// continues them; README.md there tells which version wrote each.
var goldenDir = filepath.Join("..", "testdata", "stores")

// golden describes the kinds of stored jobs.
func golden(t *testing.T) map[string]job.Spec {
	make := func(app string, nodes int, change func(*job.Spec)) job.Spec {
		s := newSpec(t, app, nodes)
		s.Schedule.Every, s.Codec, s.Incremental = s.Iterations/4, codec.UseNone.String(), false
		change(&s)
		return s
	}
	common := func(layout plan.Layout) func(*job.Spec) {
		return func(s *job.Spec) {
			s.Codec, s.WritePath = codec.UseZstd.String(), plan.Defaults()
			s.WritePath.Layout, s.WritePath.StripeSize, s.WritePath.Buffer = layout, 64<<10, 256<<10
		}
	}
	logged := func(mode job.Mode, k channel.Kind) func(*job.Spec) {
		return func(s *job.Spec) {
			s.Mode, s.Log, s.Codec, s.Incremental = mode, k.String(), codec.UseAuto.String(), true
			s.Residuals = 5
		}
	}
	return map[string]job.Spec{
		"per-rank":    make("ring.S.4", 2, func(*job.Spec) {}),
		"aggregated":  make("ring.S.4", 2, common(plan.Aggregated)),
		"shared":      make("ring.S.5", 2, common(plan.Shared)),
		"incremental": make("minighost.S.2", 1, func(s *job.Spec) { s.Codec, s.Incremental = codec.UseAuto.String(), true }),
		"receiver":    make("ring.S.4", 2, logged(job.Semi, channel.Receiver)),
		"sender":      make("ring.S.4", 2, logged(job.Semi, channel.Sender)),
		"optimistic":  make("ring.S.3", 1, logged(job.Uncoordinated, channel.Optimistic)),
		"none":        make("ring.S.3", 1, logged(job.Uncoordinated, channel.None)),
		"global": make("heat.S.4", 2, func(s *job.Spec) {
			common(plan.Aggregated)(s)
			s.Incremental, s.Workload = true, strings.Replace(s.Workload, "ny: 187,  nx: 203", "ny: 37, nx: 41", 1)
		}),
	}
}

// TestGoldenStores restarts jobs that an earlier version has stored and that lost a
// rank, from the oldest and the newest checkpoint, to the digest of then. The nightly form
// restarts them from every checkpoint.
func TestGoldenStores(t *testing.T) {
	notRaced(t)
	t.Parallel()
	specs := golden(t)
	drawn := testkit.Some((len(specs)+1)/2, slices.Sorted(maps.Keys(specs))...)
	for kind, spec := range specs {
		if *update {
			writeGolden(t, kind, spec)
		} else if !slices.Contains(drawn, kind) {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			restartGolden(t, kind)
		})
	}
}

// useOwnProgram makes the test binary the library zone, as ckpt is in production.
func useOwnProgram(t *testing.T) {
	t.Helper()
	before := LibraryFile
	LibraryFile = launch.Self
	t.Cleanup(func() { LibraryFile = before })
}

// writeGolden stores a job that loses a rank at three quarters of its way, unless there
// is one: what an earlier version wrote must stay readable.
func writeGolden(t *testing.T, kind string, spec job.Spec) {
	dir := filepath.Join(goldenDir, kind)
	if _, err := os.Stat(dir); err == nil {
		return
	}
	whole, _, _ := mustLaunch(t, spec, Options{})
	spec.AutoRestart = false
	opt := Options{Store: dir, Job: "job", Observer: &recorder{t: t},
		Failures: []launch.Failure{{Rank: spec.NP - 1, Node: -1, Iter: spec.Iterations*3/4 + 2}}}
	if _, err := Launch(t.Context(), spec, opt); err == nil {
		t.Fatal("the job was not stopped by its failure")
	}
	if err := os.WriteFile(dir+".digest", []byte(whole.Digest+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func restartGolden(t *testing.T, kind string) {
	numbers := []int{0} // of ranks; 0: as stored
	if kind == "global" {
		numbers = append(numbers, 6)
	}
	for _, np := range numbers {
		restartGoldenOn(t, kind, np)
	}
}

func restartGoldenOn(t *testing.T, kind string, np int) {
	digest, err := os.ReadFile(filepath.Join(goldenDir, kind+".digest"))
	if err != nil {
		t.Fatal(err)
	}
	for _, number := range goldenCheckpoints(t, kind) {
		store := t.TempDir()
		if err := os.CopyFS(store, os.DirFS(filepath.Join(goldenDir, kind))); err != nil {
			t.Fatal(err)
		}
		rec := &recorder{t: t}
		opt := RestartOptions{Options: Options{Store: store, Job: "job", Observer: rec}, Checkpoint: number, NP: np}
		r, err := Restart(t.Context(), opt)
		if err != nil {
			t.Errorf("checkpoint %d: %v", number, err)
			continue
		}
		if r.Digest+"\n" != string(digest) {
			t.Errorf("checkpoint %d: digest %s, it was %s", number, r.Digest, digest)
		}
		if len(rec.warned) > 0 {
			t.Errorf("checkpoint %d: warned %q", number, rec.warned)
		}
		verifyAll(t, opt.Options)
	}
}

// goldenCheckpoints lists what a golden job can be restarted from; 0 lets the restart
// choose, as it always does in jobs of several groups.
func goldenCheckpoints(t *testing.T, kind string) []int {
	store, err := image.OpenStore(vfs.OS{}, filepath.Join(goldenDir, kind))
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.Job("job")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := job.ReadSpec(j)
	if err != nil {
		t.Fatal(err)
	}
	numbers, err := j.Checkpoints()
	if err != nil {
		t.Fatal(err)
	}
	if len(numbers) < 3 {
		t.Fatalf("there are checkpoints %v, expected 3 or more", numbers)
	}
	if spec.Mode != job.Coordinated {
		return []int{0}
	}
	if !testkit.Nightly() {
		numbers = numbers[:1]
	}
	return append(numbers, 0)
}
