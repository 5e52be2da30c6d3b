package image

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/image/plan"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
	"ckpt/zones"
)

// groupLayouts are the ways of writing files together whose faults are tested.
func groupLayouts() map[string]plan.Settings {
	base := plan.Settings{StripeSize: 64 << 10, StripeCount: 2, Buffer: 64 << 10, P1: true, P2: true}
	aggregated, shared, overlapped := base, base, base
	aggregated.Layout = plan.Aggregated
	shared.Layout = plan.Shared
	overlapped.Layout, overlapped.P3, overlapped.Strategy = plan.Shared, true, plan.Dynamic
	return map[string]plan.Settings{"aggregated": aggregated, "shared": shared, "shared,dynamic,p3": overlapped}
}

// groupMemory is that of three ranks; it differs from checkpoint to checkpoint,
// and some of it does not.
func groupMemory(number int) [][]zones.Region {
	memory := make([][]zones.Region, 3)
	for i := range memory {
		memory[i] = []zones.Region{
			region("u", zones.Data, 90_000, uint64(number*10+i)),
			region("same", zones.Data, 70_000, uint64(i)),
			region("zero", zones.Shared, 50_000, 0),
		}
		clear(memory[i][2].Mem)
	}
	return memory
}

func groupRanks() []plan.Source {
	return []plan.Source{{Rank: 0, Node: 0}, {Rank: 1, Node: 0}, {Rank: 2, Node: 1}}
}

// on returns the job as somebody finds it on another file system, with the memory
// of a run that has just begun.
func (g *groupJob) on(fsys vfs.FS) (*groupJob, error) {
	k, err := reopen(fsys, "/store")
	if err != nil {
		return nil, err
	}
	again := *g
	again.fs, again.job, again.history = fsys, k.job, nil
	for range g.ranks {
		again.history = append(again.history, container.NewHistory())
	}
	return &again, nil
}

// second is what the ranks do for checkpoint 2, after a restart from 1.
func (g *groupJob) second() error {
	if _, err := g.job.Sweep(); err != nil {
		return err
	}
	m, err := g.job.Manifest(1)
	if err != nil {
		return err
	}
	for i, r := range m.Ranks {
		if err := g.job.Recall(g.history[i], m, r.File, i); err != nil {
			return err
		}
	}
	_, err = g.take(context.Background(), 2, 1, groupMemory(2))
	return errors.Join(err, g.job.Unlock())
}

func (g *groupJob) holds(number int) error {
	m, err := g.job.Manifest(number)
	if err != nil {
		return err
	}
	return g.check(m, groupMemory(number))
}

// TestGroupFaults fails each operation of all ranks and of the coordinator once,
// in every layout: either the checkpoint is whole, or it is not there and the one
// before is. It is every fourth operation, and at night every one.
func TestGroupFaults(t *testing.T) {
	t.Parallel()
	step := 8
	if testkit.Nightly() {
		step = 1
	}
	for name, s := range groupLayouts() {
		for _, setting := range []codec.Setting{codec.UseNone, codec.UseZstd} {
			if setting == codec.UseZstd && name != "shared" {
				continue
			}
			t.Run(fmt.Sprintf("%s/%v", name, setting), func(t *testing.T) {
				g := newGroupJob(t, groupRanks(), s, setting, true)
				if _, err := g.take(context.Background(), 1, 0, groupMemory(1)); err != nil {
					t.Fatal(err)
				}
				if err := g.job.Unlock(); err != nil {
					t.Fatal(err)
				}
				before := g.fs.(*memfs.FS)
				failed := 0
				kinds := []memfs.Fault{{Err: syscall.EIO}, {Err: syscall.ENOSPC, Short: true}, {Short: true}, {Err: syscall.EIO, Stop: true}}
				if !testkit.Nightly() && (testkit.Enabled || setting != codec.UseNone || name != "shared") {
					kinds = kinds[1:2]
				}
				for _, kind := range kinds {
					for kind.At = 1; ; kind.At += step {
						disk := before.CrashClone(memfs.Crash{Mode: memfs.Kept})
						bad := memfs.WithFault(disk, kind)
						run, err := g.on(bad)
						if err == nil {
							err = run.second()
						}
						if err != nil {
							failed++
						}
						if err := afterGroupFault(g, disk, err); err != nil {
							t.Fatalf("%+v: %v", kind, err)
						}
						if len(bad.Ops()) < kind.At {
							break
						}
					}
				}
				if failed < 20/step {
					t.Errorf("only %d runs have failed", failed)
				}
			})
		}
	}
}

// afterGroupFault looks at the disk when it works again; failed is what the run
// was told.
func afterGroupFault(g *groupJob, disk *memfs.FS, failed error) error {
	now, err := g.on(disk.CrashClone(memfs.Crash{Mode: memfs.Kept}))
	if err != nil {
		return err
	}
	if _, err := now.job.Sweep(); err != nil {
		return err
	}
	if err := checkNoDebris(now.job); err != nil {
		return err
	}
	if err := now.holds(1); err != nil {
		return err
	}
	latest, err := now.job.Latest()
	if err != nil {
		return err
	}
	if latest == 2 {
		return now.holds(2)
	}
	if failed == nil {
		return errors.New("checkpoint 2 was reported and is not there")
	}
	if err := now.second(); err != nil {
		return fmt.Errorf("the disk works again, and %w", err)
	}
	return now.holds(2)
}

// TestGroupCrash loses power after every operation of a checkpoint of shared and
// aggregated files, in several ways.
func TestGroupCrash(t *testing.T) {
	t.Parallel()
	for name, s := range groupLayouts() {
		t.Run(name, func(t *testing.T) {
			g := newGroupJob(t, groupRanks(), s, codec.UseNone, true)
			if _, err := g.take(context.Background(), 1, 0, groupMemory(1)); err != nil {
				t.Fatal(err)
			}
			if err := g.job.Unlock(); err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			var committed atomic.Bool
			states, seen := 0, make(map[string]bool)
			disk := g.fs.(*memfs.FS)
			disk.AfterOp = func(op, name string) {
				mu.Lock()
				defer mu.Unlock()
				for _, crash := range []memfs.Crash{{Mode: memfs.Lost}, {Mode: memfs.Kept}, {Seed: uint64(states)}, {Seed: uint64(states) + 1}} {
					states++
					must := committed.Load()
					after := disk.CrashClone(crash)
					key := fmt.Sprint(after.Digest(), must)
					if seen[key] {
						continue
					}
					seen[key] = true
					failed := errors.New("power was lost")
					if must {
						failed = nil
					}
					if err := afterGroupFault(g, after, failed); err != nil {
						t.Errorf("after %s %s, %+v: %v", op, name, crash, err)
					}
				}
			}
			run, err := g.on(disk)
			if err == nil {
				err = run.second()
			}
			committed.Store(true)
			if err != nil {
				t.Fatal(err)
			}
			// After the commit, nothing may be lost any more.
			disk.AfterOp("end", "")
			t.Logf("%d states, %d different", states, len(seen))
		})
	}
}
