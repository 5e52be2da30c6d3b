package coordinator

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// onNodesOnly runs a job to its end whose only checkpoints are on nodes.
func onNodesOnly(t *testing.T, nodes int, opt Options) (job.Spec, Options, *image.Store) {
	t.Helper()
	s := tiered(t, "ring.S.4", nodes, "partner", "none")
	s.Schedule.Every = s.Iterations/2 + 1
	_, _, opt = mustLaunch(t, s, opt)
	store, err := image.OpenStore(vfs.OS{}, opt.Store)
	if err != nil {
		t.Fatal(err)
	}
	return s, opt, store
}

func readLevels(t *testing.T, store *image.Store, name string) *job.Levels {
	t.Helper()
	j, err := store.Job(name)
	if err != nil {
		t.Fatal(err)
	}
	l, err := job.ReadLevels(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestUnseen: whatever has become of the directories of all nodes, every question about the
// only checkpoint has one answer, which names them.
func TestUnseen(t *testing.T) {
	t.Parallel()
	s, opt, store := onNodesOnly(t, 2, Options{})
	dirs := []string{s.Tier.NodeDir(0), s.Tier.NodeDir(1)}
	for _, c := range []struct {
		name  string
		spoil func(dir string) error // a directory that was moved away
		lost  bool
		want  string
	}{
		{"elsewhere", func(string) error { return nil }, false, "there is no such directory"},
		{"empty", func(dir string) error { return os.Mkdir(dir, 0o700) }, true, "the directory has nothing of the job"},
		{"file", func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, false, "not a directory"},
		{"loop", func(dir string) error { return os.Symlink(dir, dir) }, false, "too many levels of symbolic links"},
		{"without", func(dir string) error {
			if err := os.CopyFS(dir, os.DirFS(dir+".away")); err != nil {
				return err
			}
			return os.RemoveAll(filepath.Join(dir, "jobs", "job", "0001"))
		}, true, "the directory does not have this checkpoint"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, dir := range dirs {
				if err := errors.Join(os.Rename(dir, dir+".away"), c.spoil(dir)); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = errors.Join(os.RemoveAll(dir), os.Rename(dir+".away", dir)) })
			}
			l := readLevels(t, store, "job")
			_, err := l.Find(0)
			unseen := (*job.UnseenError)(nil)
			if !errors.As(err, &unseen) || unseen.Number != 1 || len(unseen.Nodes) != 2 || unseen.Nodes[1].Dir != dirs[1] || unseen.Lost() != c.lost ||
				!strings.Contains(unseen.Nodes[0].Reason, c.want) {
				t.Fatalf("the newest checkpoint: %v", err)
			}
			answer := unseen.Error()
			if !strings.Contains(answer, dirs[0]) || !strings.Contains(answer, "node 1") || strings.Contains(answer, "damaged") {
				t.Errorf("the answer is %s", answer)
			}
			status, err := wire.Inspect(t.Context(), store, "job")
			if err != nil || status.Latest != 1 || status.Checkpoints != 1 || !slices.Equal(status.LatestUnseen, unseen.Nodes) {
				t.Errorf("status %+v, %v", status, err)
			}
			same := func(what string, err error) {
				t.Helper()
				if err == nil || !strings.Contains(err.Error(), answer) {
					t.Errorf("%s: %v; want it to say: %s", what, err, answer)
				}
			}
			_, _, err = l.Open(1)
			same("open", err)
			_, err = wire.FindLine(t.Context(), store, "job")
			same("recovery line", err)
			again := opt
			again.Observer = &recorder{t: t}
			_, err = Restart(t.Context(), RestartOptions{Options: again})
			same("restart", err)
			if !errors.Is(err, image.ErrCheckpointNotFound) {
				t.Errorf("restart: %v is not of a checkpoint", err)
			}
			_, err = Launch(t.Context(), s, again)
			same("launch", err)
			if !errors.Is(err, image.ErrJobExists) {
				t.Errorf("launch: %v is not of a job that exists", err)
			}
		})
	}
	l := readLevels(t, store, "job")
	if c, err := l.Find(0); err != nil || c.Number != 1 || c.Version == nil {
		t.Errorf("once the nodes are back: %+v, %v", c, err)
	}
}

// TestUnseenNewest: a restart that continues from an older checkpoint says which one it does
// not see.
func TestUnseenNewest(t *testing.T) {
	t.Parallel()
	s := tiered(t, "ring.S.4", 2, "partner", "every=2")
	s.Iterations *= 10 // so that checkpoint 2 is in the store before the job ends
	s.Schedule.Every = s.Iterations/4 + 1
	want, _, opt := mustLaunch(t, s, Options{})
	if err := os.RemoveAll(filepath.Join(opt.Store, "jobs", "job", "0003")); err != nil {
		t.Fatal(err)
	}
	if got := storedNumbers(t, opt); !slices.Equal(got, []int{2}) {
		t.Fatalf("checkpoints %v are in the store", got)
	}
	loseDirs(t, s, 0, 1)
	rec := &recorder{t: t}
	opt.Observer = rec
	r, err := Restart(t.Context(), RestartOptions{Options: opt})
	if err != nil || r.Digest != want.Digest {
		t.Fatalf("%+v, %v", r, err)
	}
	if !slices.ContainsFunc(rec.warned, func(w string) bool {
		return strings.Contains(w, "checkpoint 3 of job job is lost") && strings.Contains(w, "continues from checkpoint 2")
	}) {
		t.Errorf("no warning names checkpoint 3: %q", rec.warned)
	}
}

// TestFlippedRecord flips every byte of the record of what nodes have: each flip is found, and
// what the nodes have is found without it.
func TestFlippedRecord(t *testing.T) {
	t.Parallel()
	_, opt, store := onNodesOnly(t, 2, Options{})
	j, err := store.Job("job")
	if err != nil {
		t.Fatal(err)
	}
	sound, err := os.ReadFile(nodes.RecordPath(j))
	if err != nil {
		t.Fatal(err)
	}
	for i := range sound {
		for _, mask := range []byte{1, 0x20, 0xff} {
			flipped := bytes.Clone(sound)
			flipped[i] ^= mask
			if err := os.WriteFile(nodes.RecordPath(j), flipped, 0o600); err != nil {
				t.Fatal(err)
			}
			l := readLevels(t, store, "job")
			if damage := (*durable.DamageError)(nil); !errors.As(l.RecordErr, &damage) || len(l.Versions) != 1 || l.Version(1) == nil {
				t.Fatalf("byte %d with %#x: %v, versions %v", i, mask, l.RecordErr, l.Versions)
			}
		}
	}
	opt.Observer = &recorder{t: t}
	if _, err := Restart(t.Context(), RestartOptions{Options: opt}); err != nil {
		t.Errorf("restart with a damaged record: %v", err)
	}
	if l := readLevels(t, store, "job"); l.RecordErr != nil || l.Record == nil {
		t.Errorf("after a restart: %v", l.RecordErr)
	}
}

// TestPlainRecord: a record of before, which has no checksum, is read, and a wrong directory in
// it is found.
func TestPlainRecord(t *testing.T) {
	t.Parallel()
	s, _, store := onNodesOnly(t, 2, Options{})
	j, err := store.Job("job")
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := os.ReadFile(nodes.RecordPath(j))
	if err != nil {
		t.Fatal(err)
	}
	plain, _, _ := bytes.Cut(sealed, []byte("\n"))
	for text, want := range map[string]bool{string(plain) + "\n": true, strings.Replace(string(plain), filepath.Dir(s.Tier.Dir), filepath.Dir(s.Tier.Dir)+"x", 1): false} {
		if err := os.WriteFile(nodes.RecordPath(j), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if l := readLevels(t, store, "job"); (l.RecordErr == nil) != want || l.Version(1) == nil {
			t.Errorf("%s: %v, versions %v", text, l.RecordErr, l.Versions)
		}
	}
}

// TestRecordOfOther: the record of another job of this name, put in the place of the job's
// own, is found out, and the nodes are found all the same.
func TestRecordOfOther(t *testing.T) {
	t.Parallel()
	_, _, store := onNodesOnly(t, 2, Options{})
	_, _, other := onNodesOnly(t, 2, Options{})
	name := filepath.Join("jobs", "job", "tier.json")
	b, err := os.ReadFile(filepath.Join(other.Dir(), name))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(store.Dir(), name), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if l := readLevels(t, store, "job"); !nodes.Foreign(l.RecordErr) || l.Version(1) == nil {
		t.Errorf("%v, versions %v", l.RecordErr, l.Versions)
	}
}

// TestLostRecord: without the record, and under another mapping than that of the description,
// the manifests on the nodes tell which nodes there are.
func TestLostRecord(t *testing.T) {
	t.Parallel()
	s := tiered(t, "ring.S.4", 2, "partner", "none")
	s.Schedule.Every = s.Iterations/3 + 1
	want := undisturbed(t, s)
	opt := Options{Store: t.TempDir(), Job: "job", Observer: &recorder{t: t}, Failures: []launch.Failure{{Rank: 1, Node: -1, Iter: s.Schedule.Every + 1}}}
	if _, err := Launch(t.Context(), s, opt); !errors.As(err, new(*JobFailedError)) {
		t.Fatal(err)
	}
	opt.Failures = nil
	mapping := func(int) (job.Mapping, error) { return job.Mapping{1, 1, 2}, nil }
	r, err := Restart(t.Context(), RestartOptions{Options: opt, Mapping: mapping})
	if err != nil || r.Digest != want.Digest {
		t.Fatalf("%+v, %v", r, err)
	}
	store, err := image.OpenStore(vfs.OS{}, opt.Store)
	if err != nil {
		t.Fatal(err)
	}
	had := readLevels(t, store, "job")
	j, err := store.Job("job")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(nodes.RecordPath(j)); err != nil {
		t.Fatal(err)
	}
	l := readLevels(t, store, "job")
	if c, err := l.Find(0); err != nil || c.Number != 2 || c.Version == nil || len(l.Tier.Nodes()) != 3 || len(had.Tier.Nodes()) != 3 {
		t.Errorf("the newest is %+v on %d nodes, %v", c, len(l.Tier.Nodes()), err)
	}
}

// TestReclaimedUnrecorded: a version that made room for a newer one is no lost one
// where the record of the job is of before, as while the job runs or after it was killed.
func TestReclaimedUnrecorded(t *testing.T) {
	t.Parallel()
	s, _, store := onNodesOnly(t, 2, Options{})
	j, err := store.Job("job")
	if err != nil {
		t.Fatal(err)
	}
	r := readLevels(t, store, "job").Record
	older := r.Versions[0]
	r.Versions[0].Number = 2 // which nothing has
	for _, c := range []struct {
		name string
		list []nodes.Known
		want int
	}{{"older", []nodes.Known{{Number: 0, Level: nodes.Protected}, older}, 0}, {"newer", []nodes.Known{older, r.Versions[0]}, 1}} {
		r.Versions = c.list
		if err := r.Write(j); err != nil {
			t.Fatal(err)
		}
		if got := readLevels(t, store, "job").Unseen(); len(got) != c.want {
			t.Errorf("%s: unseen %+v, want %d", c.name, got, c.want)
		}
	}
	loseDirs(t, s, 1)
	r.Versions = []nodes.Known{{Number: 0, Level: nodes.Protected}, older}
	if err := r.Write(j); err != nil {
		t.Fatal(err)
	}
	if got := readLevels(t, store, "job").Unseen(); len(got) != 1 {
		t.Errorf("with a node that is not seen: unseen %+v", got)
	}
}
