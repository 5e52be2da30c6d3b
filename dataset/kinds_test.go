package dataset

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

const zero1 = `name: zero1
kernel: generic
procs: any
classes:
  big: {iterations: 1, params: {n: 405853388800, replicas: 2}}
kinds:
  - {name: writers, ranks: "div(p, replicas)"}
  - {name: others}
arrays:
  - {name: weights, elem: bfloat16, kind: writers, count: "ceildiv(n, div(p, replicas))"}
  - {name: adam, elem: float32, count: "3*ceildiv(n, p)"}
`

func specOf(t *testing.T, text string, np int) *Instance {
	t.Helper()
	w, err := ParseWorkload([]byte(text), "test")
	if err != nil {
		t.Fatal(err)
	}
	inst, err := w.Instance(w.Classes()[0], np)
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

// TestKinds divides a model's state unequally: half of the ranks 12.7 GB, half 9.5.
func TestKinds(t *testing.T) {
	inst := specOf(t, zero1, 512)
	shares := inst.Shares()
	if len(shares) != 2 || shares[0].Count != 256 || shares[1].Count != 256 {
		t.Fatalf("shares %+v", shares)
	}
	first, second := shares[0].Bytes-inst.Runtime, shares[1].Bytes-inst.Runtime
	if first != 12682918400 || second != 9512188800 {
		t.Errorf("ranks hold %d and %d bytes", first, second)
	}
	if want := 256 * (first + second); inst.TotalBytes()-512*inst.Runtime != want || inst.SavedBytes() != want {
		t.Errorf("all hold %d bytes and save %d, want %d", inst.TotalBytes(), inst.SavedBytes(), want)
	}
	if inst.DataBytes() != shares[0].Bytes {
		t.Errorf("the largest rank has %d bytes", inst.DataBytes())
	}
	turns := specOf(t, strings.Replace(strings.Replace(zero1, `"div(p, replicas)"`, "8", 1), "{name: others}", "{name: others, ranks: 8}", 1), 512)
	if got := fmt.Sprint(turns.Shares()[0].Ranks[:2]); got != "[{0 7} {16 23}]" {
		t.Errorf("kinds that repeat give the first kind ranks %s", got)
	}
}

func TestKindsRefused(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"{name: others}", "{name: writers}", "the name is taken"},
		{`, ranks: "div(p, replicas)"}`, "}", "only the last kind may be the rest"},
		{"kind: writers,", "kind: readers,", `kind "readers" is not among the kinds`},
		{`"div(p, replicas)"`, "600", "more than the 512 ranks"},
		{"{name: others}", "{name: others, ranks: 7}", "do not divide the 512 ranks"},
		{"float32", "float17", "want bytes, float64, float32, int32, int64, float16, bfloat16, int16, float8, int8"},
	} {
		w, err := ParseWorkload([]byte(strings.Replace(zero1, c.from, c.to, 1)), "test")
		if err == nil {
			_, err = w.Instance("big", 512)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.to, err, c.want)
		}
	}
}

// TestPublishedModel holds the example of a 70 B model to the size that MLPerf Storage 3.0 prints.
func TestPublishedModel(t *testing.T) {
	text, err := os.ReadFile("../docs/examples/llama70b.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(text), "\n"); lines > 20 {
		t.Errorf("the example has %d lines", lines)
	}
	gib := float64(specOf(t, string(text), 64).SavedBytes()) / (1 << 30)
	if math.Abs(gib/911.21-1) > 0.0005 {
		t.Errorf("the weights and the state have %.3f GiB, published are 911.21", gib)
	}
}

// TestElemsOfFewBits counts elements of 16 and 8 bits.
func TestElemsOfFewBits(t *testing.T) {
	for elem, bytes := range map[string]int64{"float16": 2, "bfloat16": 2, "int16": 2, "float8": 1, "int8": 1} {
		inst := specOf(t, "name: a\nkernel: generic\nprocs: any\nclasses: {x: {iterations: 1}}\narrays: [{name: a, elem: "+elem+", count: 1000}]\n", 4)
		if got := inst.Arrays[0].Bytes(); got != 1000*bytes {
			t.Errorf("1000 of %s have %d bytes", elem, got)
		}
	}
}
