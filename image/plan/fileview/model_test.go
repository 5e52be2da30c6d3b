package fileview_test

import (
	"bytes"
	"io"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ckpt/image/plan/fileview"
)

// whim is a rule that answers anything.
type whim struct {
	answers []fileview.Decision
	next    int
}

func (r *whim) Decide(fileview.Step) fileview.Decision {
	r.next++
	return r.answers[r.next%len(r.answers)]
}

func drawWhim(t *rapid.T) fileview.Rule {
	number := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(-3, 100), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64}))
	return &whim{answers: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) fileview.Decision {
		return fileview.Decision{Take: number.Draw(t, "take"), Lead: number.Draw(t, "lead"), Fill: number.Draw(t, "fill")}
	}), 1, 8).Draw(t, "answers")}
}

func drawOptions(t *rapid.T) fileview.Options {
	o := fileview.Options{
		Buffer: rapid.Int64Range(1, 200).Draw(t, "buffer"),
		Device: fileview.Device{
			Bandwidth: rapid.SampledFrom([]float64{0, 10, 1000}).Draw(t, "bandwidth"),
			Latency:   time.Duration(rapid.IntRange(0, 100).Draw(t, "latency")) * time.Millisecond,
			Stripe:    rapid.Int64Range(0, 100).Draw(t, "stripe"),
			Block:     rapid.Int64Range(0, 40).Draw(t, "block"),
		},
	}
	if i := rapid.IntRange(0, len(methods)).Draw(t, "rule"); i < len(methods) {
		o.Rule = methods[i]
	} else {
		o.Rule = drawWhim(t)
	}
	return o
}

// A scene is a random view, a file and a request that may go beyond the end of
// both.
type scene struct {
	view    *fileview.View
	opts    fileview.Options
	offs    []int64 // of the whole view
	file    []byte
	viewOff int
	n       int
}

func drawScene(t *rapid.T) scene {
	initial := rapid.Int64Range(0, 60).Draw(t, "initial")
	tuples := drawTuples(t)
	repeat := rapid.IntRange(1, 4).Draw(t, "repeat")
	v, err := fileview.NewView(initial, tuples, int64(repeat))
	if err != nil {
		t.Fatal(err)
	}
	s := scene{view: v, opts: drawOptions(t), offs: offsets(initial, tuples, repeat)}
	end := int(s.offs[len(s.offs)-1])
	s.file = pattern(rapid.IntRange(0, end+100).Draw(t, "length"), 0)
	s.viewOff = rapid.IntRange(0, len(s.offs)).Draw(t, "viewOff")
	s.n = rapid.IntRange(0, len(s.offs)-s.viewOff+10).Draw(t, "n")
	return s
}

// checkCalls fails if the file saw a call that is empty, larger than the buffer,
// or, in a request that reads, before the end of the last one.
func checkCalls(t *rapid.T, calls []call, buffer int64, backwards bool) {
	end := int64(0)
	for _, c := range calls {
		if c.n < 1 || c.n > buffer {
			t.Fatalf("a call of %d bytes, the buffer is %d", c.n, buffer)
		}
		if c.off < end && !backwards {
			t.Fatalf("a call at %d, the last ended at %d", c.off, end)
		}
		end = c.off + c.n
	}
}

func TestReadAtIsItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		m := &memFile{data: s.file}
		f := mustFile(t, m, s.view, s.opts)
		got := make([]byte, s.n)
		n, err := f.ReadAt(got, int64(s.viewOff))

		var want []byte
		for _, off := range s.offs[s.viewOff:min(len(s.offs), s.viewOff+s.n)] {
			if off >= int64(len(s.file)) {
				break
			}
			want = append(want, s.file[off])
		}
		if n != len(want) || !bytes.Equal(got[:n], want) {
			t.Fatalf("ReadAt = %d bytes %v\nwant %d bytes %v", n, got[:n], len(want), want)
		}
		if short := n < s.n; short != (err == io.EOF) || !short && err != nil {
			t.Fatalf("%d of %d bytes, error %v", n, s.n, err)
		}
		checkCalls(t, m.calls, s.opts.Buffer, false)
		sum := fileview.Stats{Reads: int64(len(m.calls)), Useful: int64(n)}
		got1 := f.Stats()
		got1.Read = 0
		if got1 != sum {
			t.Fatalf("Stats = %+v, want %+v", got1, sum)
		}
	})
}

// oneRange is a Locker for one caller, and shows what that one has locked.
type oneRange struct{ off, n int64 }

func (l *oneRange) LockRange(off, n int64) (func(), error) {
	*l = oneRange{off, n}
	return func() { *l = oneRange{} }, nil
}

// Each access of a write begins and ends with a wanted byte, and has the lock of
// exactly its range.
func TestWriteAtIsItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		lock := &oneRange{}
		s.opts.Locker = lock
		m := &memFile{data: slices.Clone(s.file)}
		m.before = func(c call) {
			wanted := func(off int64) bool { _, ok := slices.BinarySearch(s.offs, off); return ok }
			if c.off != lock.off || c.n != lock.n || !wanted(c.off) || !wanted(c.off+c.n-1) {
				t.Fatalf("call %+v under the lock of %d bytes at %d", c, lock.n, lock.off)
			}
		}
		f := mustFile(t, m, s.view, s.opts)
		p := pattern(s.n, 0xff)
		n, err := f.WriteAt(p, int64(s.viewOff))

		if s.viewOff+s.n > len(s.offs) {
			if n != 0 || err == nil || len(m.calls) > 0 {
				t.Fatalf("beyond the end of the view: %d, %v after %d calls", n, err, len(m.calls))
			}
			return
		}
		if n != s.n || err != nil {
			t.Fatalf("WriteAt = %d, %v; want %d", n, err, s.n)
		}
		want := overlaid(s.file, p, s.offs[s.viewOff:])
		if !bytes.Equal(m.data, want) {
			t.Fatalf("the file is %d bytes %v\nwant %d bytes %v", len(m.data), m.data, len(want), want)
		}
		checkCalls(t, m.calls, s.opts.Buffer, true)
		reads := slices.DeleteFunc(slices.Clone(m.calls), func(c call) bool { return c.write })
		writes := int64(len(m.calls) - len(reads))
		st := f.Stats()
		if st.Writes != writes || st.Locks != writes || st.Reads != int64(len(reads)) || st.Rewrites != st.Reads || st.Useful != int64(n) {
			t.Fatalf("Stats = %+v after %d reads, %d writes", st, len(reads), writes)
		}
	})
}

// A plan is what happens to a file without end.
func TestPlanIsWhatHappens(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		if _, ok := s.opts.Rule.(*whim); ok {
			t.Skip("not the same answers twice")
		}
		for _, a := range []fileview.Access{fileview.Read, fileview.Write} {
			f := mustFile(t, nullFile{}, s.view, s.opts)
			n := min(s.n, len(s.offs)-s.viewOff)
			do := f.ReadAt
			if a == fileview.Write {
				do = f.WriteAt
			}
			if _, err := do(make([]byte, n), int64(s.viewOff)); err != nil {
				t.Fatal(err)
			}
			if got, want := f.Plan(a, int64(s.viewOff), int64(s.n)), f.Stats(); got != want {
				t.Fatalf("%v planned %+v\n done %+v", a, got, want)
			}
		}
	})
}
