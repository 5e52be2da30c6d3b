package ui

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Progress returns a function that adds finished bytes to a progress bar, and one
// that ends the bar.
func (g *Globals) Progress(what string, total int64) (add func(int64), done func()) {
	b := g.NewBar(what, total, true)
	sum := int64(0)
	return func(n int64) {
		sum += n
		b.Set(sum)
	}, b.Clear
}

// A Bar shows progress on a terminal, after two seconds. A nil bar shows nothing.
type Bar struct {
	start time.Time
	total int64
	make  func() *progressbar.ProgressBar
	bar   *progressbar.ProgressBar
}

// NewBar returns nil where a bar would disturb.
func (g *Globals) NewBar(what string, total int64, bytes bool) *Bar {
	if g.Quiet || g.JSON || !IsTerminal(g.Err) || total < 1 {
		return nil
	}
	return &Bar{start: time.Now(), total: total, make: func() *progressbar.ProgressBar {
		return progressbar.NewOptions64(total, progressbar.OptionSetWriter(g.Err), progressbar.OptionShowBytes(bytes),
			progressbar.OptionSetDescription(what), progressbar.OptionSetWidth(24), progressbar.OptionShowCount(),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionUseIECUnits(true),
			progressbar.OptionSetPredictTime(true))
	}}
}

func (b *Bar) Set(n int64) {
	if b == nil || time.Since(b.start) < 2*time.Second {
		return
	}
	if b.bar == nil {
		b.bar = b.make()
	}
	_ = b.bar.Set64(min(n, b.total-1)) // the library ends its line when full
}

// Clear takes the bar off the screen, for a line of output or for good.
func (b *Bar) Clear() {
	if b != nil && b.bar != nil {
		_ = b.bar.Clear()
	}
}
