package images

import (
	"fmt"
	"testing"

	"ckpt/coordinator/job"
)

// TestMarkOrigin: the newest checkpoint is the default, and those that it does not descend
// from are of runs that were left.
func TestMarkOrigin(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines [][3]int // number, iteration, parent
		want  string   // of each: d default, l left, . neither
	}{
		{"one run", [][3]int{{1, 10, 0}, {2, 20, 0}, {3, 30, 0}}, "..d"},
		{"continued", [][3]int{{1, 10, 0}, {2, 20, 0}, {3, 30, 2}}, "..d"},
		{"went back", [][3]int{{1, 10, 0}, {2, 20, 0}, {3, 30, 0}, {4, 20, 1}}, ".lld"},
		{"twice from one", [][3]int{{1, 10, 0}, {2, 20, 1}, {3, 30, 1}, {4, 20, 1}}, ".lld"},
		{"back to one that was left", [][3]int{{1, 10, 0}, {2, 20, 0}, {3, 15, 1}, {4, 30, 2}}, "..ld"},
		{"its origin has gone", [][3]int{{3, 30, 0}, {5, 25, 2}, {6, 35, 2}}, "l.d"},
		{"from scratch again", [][3]int{{4, 40, 0}, {5, 10, 0}, {6, 20, 0}}, "l.d"},
	} {
		var lines []checkpointLine
		for _, l := range c.lines {
			lines = append(lines, checkpointLine{CheckpointEvent: &job.CheckpointEvent{Number: l[0], Iteration: l[1]}, Parent: l[2]})
		}
		markOrigin(lines)
		got := ""
		for _, l := range lines {
			switch {
			case l.Default:
				got += "d"
			case l.Left:
				got += "l"
			default:
				got += "."
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s (%s)", c.name, got, c.want, fmt.Sprint(c.lines))
		}
	}
	markOrigin(nil)
}
