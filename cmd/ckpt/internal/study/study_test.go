package study

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/dataset"
	"ckpt/internal/durable"
)

// TestCounts: one small run has the ranks per node of the target where that is
// possible, and the others are about half and twice as large.
func TestCounts(t *testing.T) {
	square := func(n int) bool { return slices.Contains([]int{1, 4, 9, 16, 25, 36, 49, 64, 81, 100}, n) }
	power := func(n int) bool { return n&(n-1) == 0 }
	every := func(int) bool { return true }
	for _, c := range []struct {
		np, nodes int
		rule      func(int) bool
		want      []int
		same      bool
	}{
		{64, 4, square, []int{4, 9, 16}, true},
		{36, 4, square, []int{4, 9, 16}, true},
		{36, 1, square, []int{4, 9, 16}, false},
		{64, 8, square, []int{4, 9, 16}, true},
		{512, 16, power, []int{8, 16, 32}, true},
		{32, 4, power, []int{2, 4, 8}, true},
		{16, 8, every, []int{2, 4, 8}, true},
		{400, 4, square, []int{4, 9, 16}, false}, // 100 ranks per node are too many
		{9, 1, square, []int{4}, false},
		{4, 1, square, nil, false},
	} {
		got, same := counts(c.np, c.np/c.nodes, c.rule)
		if !slices.Equal(got, c.want) || same != c.same {
			t.Errorf("%d ranks on %d nodes: %v, %v, want %v, %v", c.np, c.nodes, got, same, c.want, c.same)
		}
	}
}

// TestSmallerClass: a target that does not fit into the memory is studied in the class
// whose load is nearest.
func TestSmallerClass(t *testing.T) {
	s := &Study{Options: Options{App: "bt.D", Target: 400, Nodes: 25}, PPN: 16}
	target, err := dataset.ParseApp("bt.D", 400)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.choose(target, 16<<30); err != nil {
		t.Fatal(err)
	}
	if s.Small[0].App != "bt.C" || !strings.Contains(s.Why, "Class D does not fit") {
		t.Errorf("%+v: %s", s.Small, s.Why)
	}
	if err := (&Study{Options: s.Options, PPN: 16}).choose(target, 1<<20); err == nil {
		t.Error("no class fits, and no error")
	}
	s = &Study{Options: Options{App: "bt.D", Target: 400, Nodes: 25}, PPN: 16}
	if err := s.choose(target, 1<<40); err != nil || s.Small[2].App != "bt.D" || s.Small[2].NP != 16 {
		t.Errorf("%v, %+v", err, s.Small)
	}
}

// TestWords: a command line is split as a shell splits it, and what quoted quotes comes
// back.
func TestWords(t *testing.T) {
	for line, want := range map[string][]string{
		`mpiexec -n {np} ./heat  4096`: {"mpiexec", "-n", "{np}", "./heat", "4096"},
		`a 'b c' "d 'e'" f\ g ''`:      {"a", "b c", "d 'e'", "f g", ""},
	} {
		got, whole := words(line)
		if !whole || !slices.Equal(got, want) {
			t.Errorf("%s: %q", line, got)
		}
		again, _ := words(Command(want))
		if !slices.Equal(again[1:], want) {
			t.Errorf("%s comes back as %q", Command(want), again)
		}
	}
	for _, line := range []string{`a 'b`, `a "b`, `a\`} {
		if _, whole := words(line); whole {
			t.Errorf("%s is whole", line)
		}
	}
	if name := programOf([]string{"mpiexec", "-n", "{np}", "/opt/Heat.x", "4096"}); name != "heat_x" {
		t.Error(name)
	}
}

// small is a study of three steps, of which the last may fail.
func small(t *testing.T, dir string) *Study {
	t.Helper()
	return &Study{Options: Options{Dir: dir}, Steps: []Step{
		{Name: "a", Args: []string{"one"}, Makes: []string{filepath.Join(dir, "made")}},
		{Name: "b", Args: []string{"two", "{a:list.1.x}"}},
		{Name: "c", Args: []string{"three"}, After: []string{"b"}, Optional: true},
	}}
}

// runs returns a runner that notes the command lines, and makes what step a makes.
func runs(dir string, did *[]string, output string, fails map[string]error) Runner {
	return func(_ context.Context, args []string, out, errs io.Writer) error {
		*did = append(*did, strings.Join(args, " "))
		if err := fails[args[0]]; err != nil {
			return err
		}
		if args[0] == "one" {
			if err := os.WriteFile(filepath.Join(dir, "made"), nil, 0o600); err != nil {
				return err
			}
		}
		fmt.Fprintln(errs, "ckpt: a warning")
		_, err := fmt.Fprintln(out, output)
		return err
	}
}

// TestRunOnlyMissing: a step runs again if its result, what it made, its command line
// or the result that it uses is not as it was, and at no other time.
func TestRunOnlyMissing(t *testing.T) {
	dir := t.TempDir()
	output := `{"list": [0, {"x": 7}]}`
	run := func(s *Study, want ...string) {
		t.Helper()
		var did []string
		if err := s.Run(t.Context(), runs(dir, &did, output, nil), nil); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(did, want) {
			t.Errorf("ran %q, want %q", did, want)
		}
	}
	run(small(t, dir), "one", "two 7", "three")
	run(small(t, dir))
	remove(t, dir, "b.json")
	run(small(t, dir), "two 7")
	remove(t, dir, "made")
	run(small(t, dir), "one")
	if err := os.WriteFile(filepath.Join(dir, "c.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(small(t, dir), "three")
	output = `{"list": [1, {"x": 8}]}`
	s := small(t, dir)
	s.Steps[0].Args = []string{"one", "more"}
	run(s, "one more", "two 8", "three")
	s = small(t, dir)
	s.Steps = s.Steps[:2]
	run(s, "one", "two 8")
	if _, err := os.Stat(filepath.Join(dir, "c.json")); err == nil {
		t.Error("the result of a step that is gone is still there")
	}
	if r := s.state.Steps["a"]; !slices.Equal(r.Warnings, []string{"a warning"}) {
		t.Errorf("%+v", r)
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// TestRunFails: the error of a step names it; that of an optional one is noted, unless
// it is an interrupt, and the step is tried again.
func TestRunFails(t *testing.T) {
	dir := t.TempDir()
	broken := errors.New("broken")
	var did []string
	output := `{"list": [0, {"x": 7}]}`
	err := small(t, dir).Run(t.Context(), runs(dir, &did, output, map[string]error{"two": broken}), nil)
	step, ok := errors.AsType[*StepError](err)
	if !ok || step.N != 2 || step.Step.Name != "b" || !errors.Is(err, broken) || !strings.Contains(err.Error(), "step 2 of 3, b: ckpt two 7: broken") {
		t.Fatal(err)
	}
	s := small(t, dir)
	if err := s.Run(t.Context(), runs(dir, &did, output, map[string]error{"three": broken}), nil); err != nil || s.state.Steps["c"].Failure != "broken" {
		t.Fatal(err)
	}
	did = nil
	err = small(t, dir).Run(t.Context(), runs(dir, &did, output, map[string]error{"three": ui.ErrInterrupted}), nil)
	if !errors.Is(err, ui.ErrInterrupted) || !slices.Equal(did, []string{"three"}) {
		t.Error(err, did)
	}
	// A result without the value that a step needs.
	err = small(t, t.TempDir()).Run(t.Context(), runs(dir, &did, `{}`, nil), nil)
	if err == nil || !strings.Contains(err.Error(), "the result of a has no list.1.x") {
		t.Error(err)
	}
	if err := os.WriteFile(stateOf(dir), []byte(`{"version": 99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := small(t, dir).Run(t.Context(), nil, nil); !errors.Is(err, durable.ErrNewerVersion) {
		t.Error(err)
	}
}
