package testkit

import (
	"flag"
	"testing"
	"time"
)

// TestCostly runs each test in one of two runs, and all where tests are named.
func TestCostly(t *testing.T) {
	run, bench, limit := flag.Lookup("test.run").Value, flag.Lookup("test.bench").Value, flag.Lookup("test.timeout").Value
	chosen, said := second, map[flag.Value]string{run: run.String(), bench: bench.String(), limit: limit.String()}
	t.Cleanup(func() {
		second = chosen
		for v, s := range said {
			if err := v.Set(s); err != nil {
				t.Error(err)
			}
		}
	})
	set := func(v flag.Value, s string) {
		if err := v.Set(s); err != nil {
			t.Fatal(err)
		}
	}
	set(limit, "0")
	t.Setenv("CKPT_SKIPPED", "")
	t.Setenv("CKPT_NIGHTLY", "")
	names := []string{"TestJob", "TestJob/part", "TestScripts/a", "TestScripts/b", "TestScripts/c", "TestBlocks/A.md", "TestBlocks/B.md", "TestBlocks/C.md"}
	begins := func(of bool) map[string]bool {
		second = func() bool { return of }
		begun := make(map[string]bool)
		for _, name := range names {
			c := &costlyTest{name: name}
			Costly(c)
			begun[name] = !c.skipped
		}
		return begun
	}
	set(run, "")
	set(bench, "")
	first, rest := begins(false), begins(true)
	var of [2]int
	for _, name := range names {
		if first[name] == rest[name] {
			t.Errorf("%s: in both halves or none", name)
		}
		if first[name] {
			of[0]++
		} else {
			of[1]++
		}
	}
	if of[0] == 0 || of[1] == 0 || first["TestJob"] != first["TestJob/part"] {
		t.Errorf("the halves have %v, and %v", of, first)
	}
	for _, v := range []flag.Value{run, bench} {
		set(v, ".")
		for name, begun := range begins(true) {
			if !begun {
				t.Errorf("%s is skipped, though tests are named", name)
			}
		}
		set(v, "")
	}
	t.Setenv("CKPT_NIGHTLY", "1")
	for name, begun := range begins(true) {
		if !begun {
			t.Errorf("%s is skipped at night", name)
		}
	}
}

// A costlyTest takes note of being skipped, and goes on.
type costlyTest struct {
	name    string
	skipped bool
}

func (c *costlyTest) Name() string { return c.name }
func (c *costlyTest) Log(...any)   {}
func (c *costlyTest) Skip(...any)  { c.skipped = true }

func TestLate(t *testing.T) {
	for _, c := range []struct {
		since, limit time.Duration
		late         bool
	}{
		{0, 10 * time.Minute, false},
		{4 * time.Minute, 10 * time.Minute, false},
		{4*time.Minute + 1, 10 * time.Minute, true},
		{time.Hour, 0, false},
	} {
		if late(c.since, c.limit) != c.late {
			t.Errorf("late after %v of %v: %v, want %v", c.since, c.limit, !c.late, c.late)
		}
	}
}
