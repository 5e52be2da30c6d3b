package coordinator

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// spoilLog damages the message log of a rank.
func spoilLog(t *testing.T, opt Options, rank int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(opt.Store, "jobs", opt.Job, "logs", fmt.Sprintf("rank-%d", rank), "*.seg"))
	if err != nil || len(files) == 0 {
		t.Fatalf("segments %v, %v", files, err)
	}
	if err := os.WriteFile(files[len(files)-1], []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// storedJobOf opens a job of a test.
func storedJobOf(t *testing.T, opt Options) (*image.Store, *image.Job) {
	t.Helper()
	store, err := image.OpenStore(vfs.OS{}, opt.Store)
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.Job(opt.Job)
	if err != nil {
		t.Fatal(err)
	}
	return store, j
}

// TestRestartWithoutLog damages a message log. The restart, and the line that is shown,
// name what the checkpoints alone allow; a restart without the logs takes it, and ends
// with the right digest, even if a rank dies before the next checkpoint.
func TestRestartWithoutLog(t *testing.T) {
	notRaced(t)
	t.Parallel()
	resumed := 0
	for _, mode := range testkit.Some(4, modes()...) {
		for _, stagger := range []string{"none", "spread"} {
			if stagger == "spread" && mode.Log != channel.Optimistic.String() && !testkit.Nightly() {
				continue
			}
			if mode.Mode == job.Coordinated || mode.Log == channel.None.String() {
				continue
			}
			t.Run(fmt.Sprintf("%s,%s,%d,%s", mode.Mode, mode.Log, mode.GroupSize, stagger), func(t *testing.T) {
				s := newSpec(t, "cg.S.4", 2)
				if mode.GroupSize > 0 {
					s = newSpec(t, "ring.S.5", 2)
				}
				s.Iterations, s.Residuals = 12, 2
				want := undisturbed(t, s)
				s.Mode, s.Log, s.GroupSize, s.Stagger, s.Schedule.Every = mode.Mode, mode.Log, mode.GroupSize, stagger, 4
				opt := failed(t, s, 11)
				spoilLog(t, opt, s.NP-1)
				_, err := Restart(t.Context(), RestartOptions{Options: opt})
				var offer, shown *job.LogError
				if !errors.As(err, &offer) {
					t.Fatalf("restart: %v", err)
				}
				store, j := storedJobOf(t, opt)
				if _, err := wire.FindLine(t.Context(), store, opt.Job); !errors.As(err, &shown) || !slices.Equal(shown.From, offer.From) {
					t.Errorf("line: %v, want %+v", err, offer)
				}
				opt.Observer, opt.Failures = &recorder{t: t}, []launch.Failure{{Rank: 1, Node: -1, Iter: offer.Iteration + 1}}
				r, err := Restart(t.Context(), RestartOptions{Options: opt, WithoutLog: true, AutoRestart: true})
				if err != nil || r.Digest != want.Digest || r.Failures != 1 {
					t.Fatalf("%+v, %v, want digest %s; offered %+v", r, err, want.Digest, offer)
				}
				start := eventsOf[*StartEvent](opt.Observer.(*recorder))[0]
				if !slices.Equal(start.Line, offer.From) {
					t.Errorf("it began at %v, and %v was offered", start.Line, offer.From)
				}
				if !offer.Anew() {
					resumed++
				}
				if _, damage, err := job.VerifyLogs(j); err != nil || len(damage) > 0 {
					t.Errorf("damage %v, %v", damage, err)
				}
				if _, err := wire.FindLine(t.Context(), store, opt.Job); err != nil {
					t.Errorf("line: %v", err)
				}
			})
		}
	}
	if resumed == 0 && testkit.Nightly() { // which ones do depends on what is under way at each checkpoint
		t.Error("no job resumed from checkpoints")
	}
}

// TestRestartWithoutLogCutShort has the disk go away while the logs are being removed.
// The next restart completes that, though it does not ask for it.
func TestRestartWithoutLogCutShort(t *testing.T) {
	notRaced(t)
	t.Parallel()
	s := newSpec(t, "ring.S.4", 2)
	want := undisturbed(t, s)
	s.Mode, s.Stagger, s.Schedule.Every = job.Semi, "none", 15
	var begun Options
	for tries := 0; ; tries++ { // until no message crosses the checkpoints
		begun = failed(t, s, 35)
		spoilLog(t, begun, 3)
		store, _ := storedJobOf(t, begun)
		var offer *job.LogError
		if _, err := wire.FindLine(t.Context(), store, begun.Job); !errors.As(err, &offer) || tries == 50 {
			t.Fatalf("line: %v", err)
		}
		if !offer.Anew() {
			break
		}
	}
	restart := func(fault memfs.Fault) (Options, []memfs.Op) {
		opt := begun
		opt.Store = filepath.Join(t.TempDir(), "store")
		if err := os.CopyFS(opt.Store, os.DirFS(begun.Store)); err != nil {
			t.Fatal(err)
		}
		bad := memfs.WithFault(vfs.OS{}, fault)
		opt.FS = bad
		if r, err := Restart(t.Context(), RestartOptions{Options: opt, WithoutLog: true}); fault.At == 0 && (err != nil || r.Digest != want.Digest) {
			t.Fatalf("%+v, %v", r, err)
		}
		opt.FS = nil
		return opt, bad.Ops()
	}
	_, ops := restart(memfs.Fault{})
	resets := 0
	for _, op := range ops {
		if resetsLog(op) {
			resets++
		}
	}
	for at := 1; at <= resets; at += 1 + resets/4 {
		opt, _ := restart(memfs.Fault{At: at, Of: resetsLog, Err: syscall.EIO, Stop: true})
		_, j := storedJobOf(t, opt)
		if line, err := job.ReadBaseline(j, len(resolved(t, s).Groups)); err != nil || !line.Unlogged {
			t.Fatalf("operation %d: %+v, %v", at, line, err)
		}
		r, err := Restart(t.Context(), RestartOptions{Options: opt})
		if err != nil || r.Digest != want.Digest {
			t.Fatalf("operation %d: %+v, %v, want digest %s", at, r, err, want.Digest)
		}
	}
}

// resetsLog reports whether an operation may be one that removes a log.
func resetsLog(op memfs.Op) bool {
	return op.Name != "stat" && op.Name != "open" && strings.Contains(op.Path, "/logs/rank-")
}

// A job that logs nothing has no log to do without.
func TestWithoutLogRefused(t *testing.T) {
	notRaced(t)
	t.Parallel()
	for _, mode := range []job.Spec{{Mode: job.Coordinated}, {Mode: job.Uncoordinated, Log: channel.None.String()}} {
		s := short(t, "ring.S.4", mode.Mode, mode.Log)
		s.Schedule.Every = 4
		_, _, opt := mustLaunch(t, s, Options{})
		if _, err := Restart(t.Context(), RestartOptions{Options: opt, WithoutLog: true}); !errors.As(err, new(*job.UsageError)) {
			t.Errorf("%s: %v", mode.Mode, err)
		}
	}
}
