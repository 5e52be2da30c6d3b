package objectfs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"ckpt/internal/durable"
	"ckpt/internal/objectfs"
	"ckpt/internal/objectfs/objecttest"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

func TestMain(m *testing.M) {
	os.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	os.Exit(m.Run())
}

// eachBucket runs a test on the model, on the model through the protocol and, where versitygw is
// there, on a server.
func eachBucket(t *testing.T, test func(t *testing.T, b objectfs.Bucket)) {
	t.Run("memory", func(t *testing.T) { test(t, objecttest.NewMemory(time.Now)) })
	t.Run("protocol", func(t *testing.T) {
		var s objecttest.Server
		s.Use(objecttest.NewMemory(time.Now))
		served := httptest.NewServer(&s)
		t.Cleanup(served.Close)
		test(t, connect(t, served.URL))
	})
	t.Run("versitygw", func(t *testing.T) { test(t, server(t)) })
}

// server returns a bucket of a versitygw of the test.
func server(t *testing.T) objectfs.Bucket {
	testkit.All(t, "versitygw")
	g, err := testkit.StartGateway(t.TempDir(), "bucket")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.End)
	return connect(t, g.Endpoint)
}

func connect(t *testing.T, endpoint string) objectfs.Bucket {
	for _, word := range testkit.Credentials {
		name, value, _ := strings.Cut(word, "=")
		t.Setenv(name, value)
	}
	b, err := objectfs.Connect(testkit.Name(endpoint, "bucket"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const root = "/s3:/bucket"

// newFS returns a file system that does nothing by itself, with short parts.
func newFS(b objectfs.Bucket) *objectfs.FS {
	f := objectfs.New(b, root)
	f.Alone(objectfs.MinPart)
	return f
}

// TestConform: a bucket holds what every file system promises.
func TestConform(t *testing.T) {
	eachBucket(t, func(t *testing.T, b objectfs.Bucket) {
		f := newFS(b)
		testkit.Conform(t, f, root)
		if err := f.Mkdir(root + "/below"); err != nil {
			t.Fatal(err)
		}
		testkit.Conform(t, newFS(b), root+"/below")
	})
}

// TestGap fills a gap in the first part of a file after a byte behind that part has come: the part
// is not sent before.
func TestGap(t *testing.T) {
	eachBucket(t, func(t *testing.T, b objectfs.Bucket) {
		f := newFS(b)
		want := bytes.Repeat([]byte("gap"), objectfs.MinPart/3+100)
		w, err := f.Create(root + "/gap.img")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range [][2]int{{1000, objectfs.MinPart}, {objectfs.MinPart, len(want)}, {0, 1000}} {
			if _, err := w.WriteAt(want[s[0]:s[1]], int64(s[0])); err != nil {
				t.Fatalf("bytes %d to %d: %v", s[0], s[1], err)
			}
		}
		if err := errors.Join(w.Sync(), w.Close()); err != nil {
			t.Fatal(err)
		}
		r, err := newFS(b).Open(root + "/gap.img")
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if _, err := r.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
			t.Errorf("read other bytes; %v", err)
		}
		r.Close()
	})
}

// TestParts writes a file out of order by several goroutines, with a hole, and reads it.
func TestParts(t *testing.T) {
	eachBucket(t, func(t *testing.T, b objectfs.Bucket) {
		f := newFS(b)
		const size, hole, piece = 3*objectfs.MinPart + 12345, 2*objectfs.MinPart + 100, 700_001
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(i * 7 >> 3)
		}
		clear(want[hole : hole+1000])
		w, err := f.Create(root + "/file.img")
		if err != nil {
			t.Fatal(err)
		}
		var g errgroup.Group
		for at := 0; at < size; at += piece {
			g.Go(func() error {
				end := min(at+piece, size)
				for _, s := range [][2]int{{at, min(end, max(at, hole))}, {min(end, max(at, hole+1000)), end}} {
					if s[0] < s[1] {
						if _, err := w.WriteAt(want[s[0]:s[1]], int64(s[0])); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if _, err := newFS(b).Open(root + "/file.img"); err == nil {
			t.Error("the file is there before it is whole")
		}
		for _, do := range []func() error{w.Sync, w.Close} {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}
		r, err := newFS(b).Open(root + "/file.img")
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, size)
		if n, err := r.ReadAt(got, 0); n != size || err != nil && err != io.EOF || !bytes.Equal(got, want) {
			t.Errorf("read %d bytes, %v", n, err)
		}
		for range 50 {
			at := rand.IntN(size)
			n := min(rand.IntN(1<<20)+1, size-at)
			if k, err := r.ReadAt(got[:n], int64(at)); k != n || !bytes.Equal(got[:n], want[at:at+n]) {
				t.Fatalf("read %d of %d bytes at %d, %v", k, n, at, err)
			}
		}
	})
}

// A deaf bucket hears no conditions.
type deaf struct {
	objectfs.Bucket
	uploads bool // of uploads only
}

func (d deaf) Put(ctx context.Context, key string, b []byte, mark string, c objectfs.Condition) (objectfs.Object, error) {
	if !d.uploads {
		c = objectfs.Condition{}
	}
	return d.Bucket.Put(ctx, key, b, mark, c)
}

func (d deaf) Complete(ctx context.Context, key, id string, parts []objectfs.Part, _ objectfs.Condition) (objectfs.Object, error) {
	return d.Bucket.Complete(ctx, key, id, parts, objectfs.Condition{})
}

// TestProve: a storage that hears no conditions is found out, and nothing stays of the test.
func TestProve(t *testing.T) {
	eachBucket(t, func(t *testing.T, b objectfs.Bucket) {
		if err := newFS(b).Prove(root, 16); err != nil {
			t.Error(err)
		}
		for _, uploads := range []bool{false, true} {
			if err := newFS(deaf{b, uploads}).Prove(root, 1); err == nil || !strings.Contains(err.Error(), "does not honour") {
				t.Errorf("uploads only %v: %v", uploads, err)
			}
		}
		if list, err := newFS(b).ReadDir(root); len(list) > 0 || err != nil {
			t.Errorf("%v stays, %v", list, err)
		}
	})
}

// lease takes the lock of a test.
func lease(f *objectfs.FS) (vfs.Lease, error) {
	l, err := f.Lock(root + "/lock")
	if err != nil {
		return nil, err
	}
	return l.(vfs.Lease), nil
}

// TestLease: a lock whose lease has run out is taken over; its holder is fenced, and removes
// nothing of its successor. Old uploads go.
func TestLease(t *testing.T) {
	now := time.Now()
	m := objecttest.NewMemory(func() time.Time { return now })
	a, b := newFS(m), newFS(m)
	first, err := lease(a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Lock(root + "/lock"); !errors.Is(err, vfs.ErrLocked) {
		t.Error(err)
	}
	if _, err := m.Begin(t.Context(), "old.img", "x"); err != nil {
		t.Fatal(err)
	}
	now = now.Add(objectfs.Abandoned + time.Hour)
	second, err := lease(b)
	if err != nil || second.Fence() <= first.Fence() || !second.Contested() {
		t.Fatal(err, second)
	}
	w, err := b.Create(root + "/file")
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Remove(root + "/file"); !errors.Is(err, objectfs.ErrFenced) {
		t.Errorf("removing the successor's file: %v", err)
	}
	if err := first.Renew(); !errors.Is(err, objectfs.ErrFenced) {
		t.Error(err)
	}
	if all, err := m.Uploads(t.Context(), ""); len(all) > 0 || err != nil {
		t.Errorf("uploads %v stay, %v", all, err)
	}
	if err := errors.Join(first.Close(), second.Renew(), second.Close()); err != nil {
		t.Error(err)
	}
	if locked, err := a.Locked(root + "/lock"); locked || err != nil {
		t.Error(locked, err)
	}
}

// TestOnce has several writers make the same manifest at a time: one succeeds.
func TestOnce(t *testing.T) {
	eachBucket(t, func(t *testing.T, b objectfs.Bucket) {
		for round := range 5 {
			dir := fmt.Sprintf("%s/%d", root, round)
			if err := newFS(b).Mkdir(dir); err != nil {
				t.Fatal(err)
			}
			won := make(chan string, 16)
			var g errgroup.Group
			for i := range 16 {
				g.Go(func() error {
					f := newFS(b)
					text := fmt.Sprint("writer ", i)
					w, err := f.Create(dir + "/" + objectfs.Once + durable.TempSuffix)
					if err != nil {
						return err
					}
					if _, err = w.WriteAt([]byte(text), 0); err != nil {
						return err
					}
					if f.Rename(dir+"/"+objectfs.Once+durable.TempSuffix, dir+"/"+objectfs.Once) == nil {
						won <- text
					}
					return nil
				})
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			close(won)
			r, err := newFS(b).Open(dir + "/" + objectfs.Once)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 64)
			n, _ := r.ReadAt(got, 0)
			if winner := <-won; winner != string(got[:n]) || <-won != "" {
				t.Errorf("%q has won, and %q is there", winner, got[:n])
			}
		}
	})
}
