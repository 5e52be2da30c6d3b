package coordinator

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

// envStall names a file. While it exists, a stallingDisk does nothing.
const envStall = "CKPT_TEST_STALL"

// stallingDisk waits in every operation while a file exists. The coordinator and the
// ranks of a test share that file.
type stallingDisk struct {
	vfs.Buffered
	gate string
}

func (d stallingDisk) wait() {
	for {
		if _, err := os.Stat(d.gate); errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (d stallingDisk) open(name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	d.wait()
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	return stallingFile{vfs.Only(f), d}, nil
}

func (d stallingDisk) Create(name string) (vfs.File, error)    { return d.open(name, d.FS.Create) }
func (d stallingDisk) Open(name string) (vfs.File, error)      { return d.open(name, d.FS.Open) }
func (d stallingDisk) OpenWrite(name string) (vfs.File, error) { return d.open(name, d.FS.OpenWrite) }
func (d stallingDisk) Rename(from, to string) error            { d.wait(); return d.FS.Rename(from, to) }
func (d stallingDisk) Remove(name string) error                { d.wait(); return d.FS.Remove(name) }
func (d stallingDisk) Mkdir(name string) error                 { d.wait(); return d.FS.Mkdir(name) }
func (d stallingDisk) Stat(name string) (fs.FileInfo, error)   { d.wait(); return d.FS.Stat(name) }
func (d stallingDisk) SyncDir(name string) error               { d.wait(); return d.FS.SyncDir(name) }
func (d stallingDisk) Free(name string) (int64, error)         { d.wait(); return d.FS.Free(name) }

func (d stallingDisk) ReadDir(name string) ([]fs.DirEntry, error) {
	d.wait()
	return d.FS.ReadDir(name)
}

type stallingFile struct {
	vfs.Plain
	disk stallingDisk
}

func (f stallingFile) ReadAt(b []byte, off int64) (int, error) {
	f.disk.wait()
	return f.File.ReadAt(b, off)
}

func (f stallingFile) WriteAt(b []byte, off int64) (int, error) {
	f.disk.wait()
	return f.File.WriteAt(b, off)
}

func (f stallingFile) Sync() error  { f.disk.wait(); return f.File.Sync() }
func (f stallingFile) Close() error { f.disk.wait(); return f.File.Close() }

// A stallOnce has the store stand still for a while when the coordinator looks at the
// library zone of a checkpoint that a group is restarted from. The new processes have
// connected then, or are about to, and wait to be let in.
type stallOnce struct {
	stallingDisk
	job    string
	failed atomic.Bool // whether a rank has
	stall  func()
}

func (d *stallOnce) Open(name string) (vfs.File, error) {
	if strings.HasPrefix(filepath.Base(name), "library") && d.failed.Load() && len(children(d.job, 1)) > 0 && d.failed.Swap(false) {
		d.stall()
	}
	return d.stallingDisk.Open(name)
}

// TestStalledStore has the store stand still for twice the silence limit, in
// every operation of the ranks and of the coordinator: after the first checkpoint, and
// when a group is being restarted. No rank is declared dead.
func TestStalledStore(t *testing.T) {
	notRaced(t)
	t.Parallel()
	const silence = 1500 * time.Millisecond
	for _, mode := range []job.Mode{job.Coordinated, job.Uncoordinated} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			gate, name := filepath.Join(t.TempDir(), "stall"), "stalled-"+string(mode)
			forRank(t, name, envStall, gate)
			var stalls atomic.Int64
			disk := &stallOnce{stallingDisk: stallingDisk{vfs.Through(vfs.OS{}), gate}, job: name, stall: func() {
				if stalls.Add(1); os.WriteFile(gate, nil, 0o600) != nil {
					t.Error("the store cannot be stalled")
				}
				time.AfterFunc(2*silence, func() { os.Remove(gate) })
			}}
			s := newSpec(t, "ring.S.4", 2)
			s.Mode, s.AutoRestart, s.Schedule.Every = mode, true, 10
			opt := Options{Job: name, FS: disk, Limits: protocol.DefaultLimits, Failures: []launch.Failure{{Rank: 1, Node: -1, Iter: 25}}}
			opt.Limits.Silence = silence
			opt.Observer = &recorder{t: t, on: func(ev any) {
				switch ev.(type) {
				case *job.CheckpointEvent:
					if stalls.Load() == 0 {
						disk.stall()
					}
				case *FailureEvent:
					disk.failed.Store(stalls.Load() == 1)
				}
			}}
			r, rec, _ := mustLaunch(t, s, opt)
			if r.Failures != 1 || stalls.Load() != 2 {
				t.Errorf("%d failures, the store stalled %d times; want 1, 2", r.Failures, stalls.Load())
				for _, ev := range eventsOf[*FailureEvent](rec) {
					t.Logf("rank %d %s", ev.Rank, ev.Reason)
				}
			}
		})
	}
}

// TestInFlight has the storage of the ranks stand still from the first copy on. The job computes
// until three checkpoints are in flight, and then either loses a rank or gets its storage back.
func TestInFlight(t *testing.T) {
	notRaced(t)
	t.Parallel()
	for _, fail := range testkit.Some(1, false, true) {
		t.Run(fmt.Sprintf("fail=%v", fail), func(t *testing.T) {
			t.Parallel()
			gate, name := filepath.Join(t.TempDir(), "stall"), fmt.Sprintf("flight-%v", fail)
			forRank(t, name, envStall, gate)
			s := newSpec(t, "ring.S.4", 2)
			s.Async, s.InFlight, s.AutoRestart, s.Schedule.Every = true, 3, true, 10
			captured, committed := 0, 0
			opt := Options{Job: name, watch: func(a protocol.Action) {
				switch a := a.(type) {
				case protocol.Broadcast:
					if _, ok := a.Message.(protocol.Capture); !ok {
						return
					}
					if captured++; captured == 1 && os.WriteFile(gate, nil, 0o600) != nil {
						t.Error("the store cannot be stalled")
					}
					if captured == 3 && !fail {
						os.Remove(gate)
					}
				case protocol.Commit:
					if committed++; committed == 1 && !fail && captured < 3 {
						t.Errorf("a checkpoint is committed after %d copies", captured)
					}
				}
			}}
			opt.Observer = &recorder{t: t, on: func(ev any) {
				if _, ok := ev.(*FailureEvent); ok {
					os.Remove(gate)
				}
			}}
			if fail {
				opt.Failures = []launch.Failure{{Rank: 1, Node: -1, Iter: 35}}
			}
			r, rec, opt := mustLaunch(t, s, opt)
			if want := undisturbed(t, s); r.Digest != want.Digest {
				t.Errorf("digest %s, want %s", r.Digest, want.Digest)
			}
			if fail && r.Lost != 3 || !fail && (r.Lost > 0 || r.Durability == nil || r.Durability.Checkpoints != r.Checkpoints) {
				t.Errorf("%d checkpoints lost, %+v of %d", r.Lost, r.Durability, r.Checkpoints)
			}
			for i, ev := range eventsOf[*job.CheckpointEvent](rec) {
				if ev.Lag < ev.Pause || ev.AtRisk < ev.Lag {
					t.Errorf("checkpoint %d: lag %v, at risk %v, pause %v", i+1, ev.Lag, ev.AtRisk, ev.Pause)
				}
			}
			verifyAll(t, opt)
		})
	}
}
