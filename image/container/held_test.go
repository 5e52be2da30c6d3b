package container

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ckpt/image/codec"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
	"ckpt/iotrace"
	"ckpt/zones"
)

// A heldFS keeps each write back for an hour, which is not the time of a disk; the disk
// takes a second.
type heldFS struct {
	vfs.Buffered
	held func()
}

func (f heldFS) Create(name string) (vfs.File, error) {
	file, err := f.FS.Create(name)
	return heldFile{vfs.Only(file), f.held}, err
}

type heldFile struct {
	vfs.Plain
	held func()
}

func (f heldFile) WriteAt(b []byte, off int64) (int, error) {
	time.Sleep(time.Hour)
	f.held()
	time.Sleep(time.Second)
	return f.File.WriteAt(b, off)
}

// TestHeld: the time for which the file system keeps writes back is in no time of a write, in
// no effort that a codec learns from, and before each write in the trace.
func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held, until atomic.Int64
		began := time.Now()
		mem := memfs.New()
		if err := mem.Mkdir("/0001"); err != nil {
			t.Fatal(err)
		}
		data := bytes.Repeat([]byte("not zeros "), 64<<10)[:zones.PageSize*100]
		regions := []zones.Region{{Name: "a", Zone: zones.Data, Elem: zones.Bytes, Size: int64(len(data)), Mem: data}}
		var recorded bytes.Buffer
		rec := iotrace.NewRecorder(&recorded, iotrace.Meta{Job: "job", Source: "ckpt", Origin: time.Now(), Tick: time.Microsecond})
		opt := WriteOptions{Depth: 1, Codec: NewCodec(codec.UseAuto, 0), Held: func() time.Duration { return time.Duration(held.Load()) },
			Trace: &Tracing{Recorder: rec, Rank: rec.Rank(TraceRank(0, 0)), Checkpoint: 1, Held: func(start time.Time) time.Time {
				if last := began.Add(time.Duration(until.Load())); last.After(start) {
					return last
				}
				return start
			}}}
		info, err := Write(context.Background(), heldFS{vfs.Through(mem), func() {
			held.Add(int64(time.Hour))
			until.Store(int64(time.Since(began)))
		}}, "/0001/rank-0.img", Header{Job: "job", Number: 1, Kind: KindRank}, regions, opt)
		if err != nil {
			t.Fatal(err)
		}
		took, disk := time.Since(began), time.Since(began)-time.Duration(held.Load())
		if held.Load() == 0 || info.StorageTime != disk || took <= time.Hour {
			t.Errorf("storage took %v, want %v of %v", info.StorageTime, disk, took)
		}
		if seen := opt.Codec.seen.storing; seen <= 0 || seen > disk {
			t.Errorf("the codec learns from %v, want at most %v", seen, disk)
		}
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		tr, _, err := iotrace.Import(&recorded, iotrace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		writes := 0
		for _, e := range tr.Events {
			if e.Op != iotrace.Write {
				continue
			}
			if writes++; time.Duration(e.End-e.Start) > time.Second {
				t.Errorf("a write of %d bytes takes %v in the trace, want a second", e.Bytes, time.Duration(e.End-e.Start))
			}
		}
		if writes == 0 {
			t.Error("no write is in the trace")
		}
	})
}
