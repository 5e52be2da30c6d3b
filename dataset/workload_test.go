package dataset

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"ckpt/internal/wording"
	"ckpt/zones/global"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// The golden file holds the arrays of each built-in application at 4 processes,
// and the table of docs/WORKLOADS.md.
func TestGoldenArrays(t *testing.T) {
	var out bytes.Buffer
	for _, name := range Names() {
		inst := mustApp(t, name+".A", 4)
		fmt.Fprintf(&out, "%v: %d iterations, %d bytes of data per rank\n", inst, inst.Iterations, inst.DataBytes())
		for _, a := range inst.Arrays {
			fmt.Fprintf(&out, "  %-10s %-8v %9d elements %10d bytes  rewrite %g%s\n", a.Name, a.Elem, a.Count, a.Bytes(), a.Rewrite, marksOf(a))
		}
		fmt.Fprintf(&out, "  %-10s %-8s %9s          %10d bytes\n", "runtime", "bytes", "", inst.Runtime)
		for _, m := range inst.Messages {
			fmt.Fprintf(&out, "  %d messages of %d bytes to %s\n", m.Count, m.Bytes, m.To)
		}
	}
	classTable(t, &out, "data of one rank of four", (*Instance).DataBytes)
	classTable(t, &out, "arrays that four ranks have to save", (*Instance).SavedBytes)
	golden := filepath.Join("testdata", "arrays.golden")
	if *update {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("-want +got (go test ./dataset -run Golden -update rewrites):\n%s", diff)
	}
}

// marksOf says what is not the usual with an array.
func marksOf(a Array) string {
	text := ""
	if !a.Save {
		text += "  computed anew"
	}
	if a.Replicated {
		text += "  replicated"
	}
	return text
}

// classTable writes a table of sizes, in MiB, with a row for each application.
func classTable(t *testing.T, out io.Writer, title string, size func(*Instance) int64) {
	fmt.Fprintf(out, "\n%s, MiB\n", title)
	for _, name := range Names() {
		w, err := LoadWorkload(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(out, "| %s |", name)
		for _, class := range []string{"S", "W", "A", "B", "C", "D"} {
			if _, ok := w.spec.Classes[class]; !ok {
				fmt.Fprint(out, " - |")
				continue
			}
			fmt.Fprintf(out, " %.2f |", float64(size(mustApp(t, name+"."+class, 4)))/(1<<20))
		}
		fmt.Fprintln(out)
	}
}

// TestBuiltIn holds the built-in workloads to the form that is not checked each time.
func TestBuiltIn(t *testing.T) {
	for _, name := range Names() {
		src := builtinText(name)
		var s spec
		if err := wording.DecodeYAML(src, &s); err != nil || !isBuiltIn(src) || isBuiltIn(append(src, '\n')) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The arrays add up to the closed formulas they were split from.
func TestFormulas(t *testing.T) {
	cube := func(x int64) int64 { return x * x * x }
	for _, np := range []int{1, 4, 9, 16, 64, 324} {
		for _, class := range []string{"S", "B", "D"} {
			inst := mustApp(t, "bt."+class, np)
			q, m := inst.Params["q"], inst.Params["m"]
			want := q*(5*cube(m)+5*cube(m+4)+30*cube(m+1)+6*cube(m+2)) + 2*(60*m*m*(q-1)+1)
			check(t, inst, 8*want)

			inst = mustApp(t, "sp."+class, np)
			m = inst.Params["m"]
			mp := 2*(m/2) + 1
			want = q*(5*(mp+4)*(mp+4)*(m+4)+8*cube(m+2)+25*mp*mp*m) + 2*(120*m*m*(q-1)+1)
			check(t, inst, 8*want)

			inst = mustApp(t, "lu."+class, np)
			i1, i2, i3 := inst.Params["i1"], inst.Params["i2"], inst.Params["i3"]
			want = 15*(i1+4)*(i2+4)*i3 + 5*(i1+2)*(i2+2)*i3 + 100*i1*i2 + 2*(i2+2)*(i3+2) + 20*max(i1, i2)*i3
			check(t, inst, 8*want)
		}
	}
	for _, np := range []int{1, 2, 4, 32, 256, 512} {
		inst := mustApp(t, "cg.B", np)
		p := int64(np)
		const na, nonzer = 75000, 13
		rows, cols := inst.Params["rows"], inst.Params["cols"]
		if rows*cols != p || cols != rows && cols != 2*rows {
			t.Fatalf("%v: grid %d x %d", inst, rows, cols)
		}
		nz := na*(nonzer+1)/p*(nonzer+1) + nonzer + na*(nonzer+2+p/256)/cols
		check(t, inst, 4*(3*nz+3*na+2)+8*(na+1+2*nz+6*(na/rows+2)))
	}
}

func check(t *testing.T, inst *Instance, want int64) {
	t.Helper()
	if got := inst.DataBytes() - inst.Runtime; got != want {
		t.Errorf("%v: arrays of %d bytes, formula says %d", inst, got, want)
	}
}

func TestParseApp(t *testing.T) {
	mine := filepath.Join(t.TempDir(), "mine.yaml")
	one := filepath.Join(t.TempDir(), "one.yml")
	src, err := builtin.ReadFile("workloads/ring.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write(t, mine, string(src))
	write(t, one, minimal)
	for _, c := range []struct {
		app  string
		np   int
		want string
	}{
		{"bt.B.4", 0, "bt.B.4"}, {"bt.B.4", 4, "bt.B.4"}, {"bt.B", 9, "bt.B.9"}, {"BT.b.16", 0, "bt.B.16"},
		{mine + ":A", 3, "ring.A.3"}, {one, 7, "tiny.only.7"}, {one + ":only", 7, "tiny.only.7"},
	} {
		if got := mustApp(t, c.app, c.np).String(); got != c.want {
			t.Errorf("ParseApp(%q, %d) = %s, want %s", c.app, c.np, got, c.want)
		}
	}
	for _, c := range []struct {
		app        string
		np         int
		reason     Reason
		text, hint string
	}{
		{"mg.B.4", 0, UnknownApp, `application "mg": not known`, "bt, cg, dl, dlshard, heat, lu, minighost, ring, sp"},
		{"bt.B.4.2", 0, UnknownApp, "want name.class.processes", "bt.B.4"},
		{"bt.B.x", 0, UnknownApp, "want name.class.processes", "bt.B.4"},
		{"", 4, UnknownApp, "want name.class.processes", "bt.B.4"},
		{"bt.Z.4", 0, UnknownClass, `class "Z" is not known`, "S, W, A, B, C, D"},
		{"bt", 4, NoClass, "class is missing", "write bt.S"},
		{mine, 4, NoClass, "class is missing", ":S"},
		{"bt.B", 0, NoProcs, "number of processes is missing", "bt.B.4"},
		{"bt.B.5", 0, BadProcs, "5 processes are not possible (rule: square)", "4 and 9"},
		{"cg.B.24", 0, BadProcs, "rule: power-of-two", "16 and 32"},
		{"cg.B", -1, BadProcs, "-1 processes", "is 1"},
		{"ring.S", 2000000, BadProcs, "2000000 processes", "1048576"},
		{"bt.B.4", 9, Contradiction, "the name says 4 processes, {np} says 9", "once"},
		{"./absent.yaml:B", 4, Unreadable, "spec ./absent.yaml: no such file", "readable"},
	} {
		_, err := ParseApp(c.app, c.np)
		wantError(t, err, c.reason, c.text, c.hint)
	}
}

func wantError(t *testing.T, err error, reason Reason, text, hint string) {
	t.Helper()
	se, ok := errors.AsType[*SpecError](err)
	if !ok {
		t.Errorf("error %v, want a SpecError with %q", err, text)
		return
	}
	if se.Reason != reason || !strings.Contains(se.Error(), text) || !strings.Contains(se.Hint(), hint) {
		t.Errorf("%s: %s (hint: %s), want %s: %s (hint: %s)", se.Reason, se, se.Hint(), reason, text, hint)
	}
	if strings.ContainsAny(se.Error()+se.Hint(), "\n\t") {
		t.Errorf("error of several lines: %q", se.Error())
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

const minimal = `name: tiny
kernel: generic
procs: any
classes:
  only: {iterations: 1, params: {n: 7}}
derived:
  - k: n + 1
arrays:
  - {name: x, elem: float64, count: k*p}
`

func TestBadSpecs(t *testing.T) {
	for _, c := range []struct{ name, old, new, text string }{
		{"empty", minimal, "", "the file is empty"},
		{"field", "kernel:", "kernal:", "line 2: field kernal not found"},
		{"nested field", "elem:", "type:", "line 9: field type not found"},
		{"comma", "k*p", "max(k,p)", `line 9: expression "max(k": unexpected end`},
		{"two documents", "procs: any", "procs: any\n---\nname: x", ""},
		{"alias bomb", "n: 7", "n: *a", "unknown anchor"},
		{"class type", "{iterations: 1, params: {n: 7}}", "[1]", "line 5: cannot unmarshal"},
		{"name", "tiny", "../tiny", `name "../tiny"`},
		{"kernel", "generic", "hpl", `kernel "hpl" is unknown`},
		{"rule", "any", "prime", `procs "prime" is unknown`},
		{"iterations", "iterations: 1", "iterations: 0", "iterations must be at least 1"},
		{"p set", "n: 7", "p: 7", "parameter p is the number of processes"},
		{"p derived", "- k:", "- p:", "parameter p is the number of processes"},
		{"derived value", " n + 1", "", `line 7: a value of key "k" is missing`},
		{"param value", "n: 7", "n: ~", `line 5: a value of key "n" is missing`},
		{"array value", "count: k*p", "global: {shape: [n, ]}, rewrite: ~", `line 9: a value of key "rewrite" is missing`},
		{"array name", "name: x", "name: x y", `name "x y"`},
		{"runtime taken", "name: x", "name: runtime", "the name is taken"},
		{"elem", "float64", "complex", `elem "complex" is unknown`},
		{"rewrite", "count: k*p", "count: k*p, rewrite: 1.5", "3/2, not between 0 and 1"},
		{"save", "count: k*p", "count: k*p, save: 2", "line 9: cannot unmarshal"},
		{"runtime small", "procs:", "runtime: 100\nprocs:", "at least 4096"},
		{"syntax", "k*p", "k*(p", `expression "k*(p": unexpected end`},
		{"behind", "k*p", "k*p)", `unexpected ")": only numbers, parameters`},
		{"no number", "k*p", "1e999", "1e999 is not a number"},
		{"fraction", "k*p", "k/3*p", "8/3, not a whole number; use div"},
		{"negative", "k*p", "k-9", "is -1; it must not be negative"},
		{"parameter", "k*p", "j*p", `parameter "j" is not defined here (known: k, n, p)`},
		{"function", "k*p", "sin(p)", `function "sin" is unknown`},
		{"arguments", "k*p", "isqrt()", "does not take 0 arguments"},
		{"zero", "k*p", "k % 0", "division by zero"},
		{"string", "k*p", "'\"a\"'", "only numbers, parameters"},
		{"loop", "k*p", "'reduce(1..1000000, # + 1)'", `function "reduce" is unknown`},
		{"let", "k*p", "let z = 1; z", "only numbers, parameters"},
		{"comparison", "k*p", "k > p", `unexpected ">"`},
		{"huge", "k*p", "10**60", "exceeds 2^62"},
		{"huger", "k*p", "10**64*10**64", "more than 256 bits"},
		{"exponent", "k*p", "2**1000000000", "exponent 1000000000"},
		{"bytes", "k*p", "2**61", "exceeds 2^62 bytes"},
		{"long", "k*p", "k" + strings.Repeat("+1", 600), "too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(minimal, c.old, c.new, 1)
			if text == minimal {
				t.Fatal("nothing replaced")
			}
			w, err := ParseWorkload([]byte(text), "bad.yaml")
			if err == nil {
				_, err = w.Instance("only", 1)
			}
			wantError(t, err, BadSpec, c.text, "")
		})
	}
	_, err := ParseWorkload(make([]byte, maxSource+1), "large.yaml")
	wantError(t, err, BadSpec, "longer than", "")
	_, err = ParseWorkload([]byte(strings.Replace(minimal, "k*p", "max(k,p)", 1)), "comma.yaml")
	wantError(t, err, BadSpec, `expression "max(k"`, "quote an expression")
}

// An array is saved, and another on each rank, unless the spec says otherwise.
func TestArrayMarks(t *testing.T) {
	type marks struct{ save, replicated bool }
	for text, want := range map[string]marks{
		"": {save: true}, ", save: true": {save: true}, ", save: false": {},
		", replicated: true": {save: true, replicated: true}, ", save: false, replicated: false": {},
	} {
		w, err := ParseWorkload([]byte(strings.Replace(minimal, "count: k*p", "count: k*p"+text, 1)), "tiny.yaml")
		if err != nil {
			t.Fatal(err)
		}
		inst, err := w.Instance("only", 1)
		if err != nil {
			t.Fatal(err)
		}
		if a := inst.Arrays[0]; a.Save != want.save || a.Replicated != want.replicated {
			t.Errorf("%q: save %t, replicated %t", text, a.Save, a.Replicated)
		}
	}
}

// Another process rebuilds an instance from the text.
func TestSource(t *testing.T) {
	for _, name := range Names() {
		first := mustApp(t, name+".S", 4)
		w, err := ParseWorkload(first.Workload.Source(), "source")
		if err != nil {
			t.Fatal(err)
		}
		second, err := w.Instance(first.Class, first.NP)
		if err != nil {
			t.Fatal(err)
		}
		first.Workload, second.Workload = nil, nil
		layouts := cmp.Comparer(func(a, b *global.Layout) bool { return reflect.DeepEqual(a, b) })
		held := func(of func() (*Blocks, error)) (list []global.Held) {
			if of == nil {
				return nil
			}
			b, err := of()
			if err == nil {
				list, err = b.Held()
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			return list
		}
		blocks := cmp.Comparer(func(a, b func() (*Blocks, error)) bool { return reflect.DeepEqual(held(a), held(b)) })
		expressions := cmp.Comparer(func(a, b expression) bool { return a.text == b.text })
		if diff := cmp.Diff(first, second, cmp.AllowUnexported(Message{}, peers{}, Array{}, holders{}, span{}), cmpopts.IgnoreUnexported(Instance{}), layouts, blocks, expressions); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestExpressions(t *testing.T) {
	params := map[string]int64{"N": 102, "q": 4, "big": math.MaxInt64 / 4}
	for text, want := range map[string]int64{
		"div(N, q)": 25, "ceildiv(N, q)": 26, "div(-7, 2)": -4, "ceildiv(-7, 2)": -3, "-7 % 2": 1,
		"isqrt(99)": 9, "squarest(12)": 3, "squarest(13)": 1, "squarest(36)": 6,
		"max(1, N, q)": 102, "min(N, q)": 4, "2**10": 1024, "2^10": 1024, "-2**2": -4,
		"2**3**2": 512, "2*-3": -6, "7 - 2 - 1": 4, "1e3 + 010": 1010, "1_000": 1000,
		"0.1 * 30": 3, "N / 4 * 2": 51, "big + 1 - big": 1, "(N + q) * 2": 212, "big*4/4 - big": 0,
	} {
		e, err := parseExpression(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := e.whole(params); err != nil || got != want {
			t.Errorf("%s = %d, %v; want %d", text, got, err, want)
		}
	}
}

// nearest returns the neighbours among the allowed counts.
func TestNearestProcs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := rapid.SampledFrom([]procRule{procsSquare, procsPower2, procsAny}).Draw(t, "rule")
		np := rapid.IntRange(-5, 5000).Draw(t, "np")
		below, above := rule.nearest(np)
		for n := max(1, np); n < above; n++ {
			if rule.allows(n) && n != np {
				t.Fatalf("%s: %d lies between %d and %d", rule, n, np, above)
			}
		}
		for n := np; n > below; n-- {
			if rule.allows(n) {
				t.Fatalf("%s: %d lies between %d and %d", rule, n, below, np)
			}
		}
		if !rule.allows(above) || below > np && np > 0 || above <= np {
			t.Fatalf("%s: %d between %d and %d", rule, np, below, above)
		}
	})
}

// FuzzWorkload: no text makes the decoder or the evaluator panic, run long, or
// yield a size that is negative.
func FuzzWorkload(f *testing.F) {
	for _, name := range Names() {
		w, err := LoadWorkload(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(w.Source(), 4)
	}
	f.Add([]byte(minimal), 7)
	f.Add([]byte(strings.Replace(minimal, "k*p", "squarest(k)**isqrt(n) - -n % 3.5", 1)), 1)
	f.Add([]byte(strings.Replace(minimal, "k*p", "map(1..100000000, {# ** 2})", 1)), 1)
	f.Add([]byte("a: &a [x, x]\nb: &b [*a, *a, *a]\nc: [*b, *b, *b]\n"), 1)
	f.Fuzz(func(t *testing.T, src []byte, np int) {
		w, err := ParseWorkload(src, "fuzz")
		if err != nil {
			wantError(t, err, BadSpec, "", "")
			return
		}
		for i, class := range w.Classes() {
			if i == 4 {
				break
			}
			inst, err := w.Instance(class, np)
			if err != nil {
				continue
			}
			total := inst.Runtime
			for _, a := range inst.Arrays {
				if a.Bytes() < 0 || !(a.Rewrite >= 0 && a.Rewrite <= 1) {
					t.Fatalf("array %+v", a)
				}
				total += a.Bytes()
			}
			if total < minRuntime || total != inst.DataBytes() {
				t.Fatalf("%v: %d bytes", inst, total)
			}
		}
	})
}

func ExampleParseApp() {
	inst, err := ParseApp("bt.B", 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%v: %.2f MiB per rank, %d iterations\n", inst, float64(inst.DataBytes())/(1<<20), inst.Iterations)

	_, err = ParseApp("bt.B.5", 0)
	var spec *SpecError
	if errors.As(err, &spec) {
		fmt.Printf("%v; %s\n", spec, spec.Hint())
	}
	// Output:
	// bt.B.4: 109.86 MiB per rank, 200 iterations
	// bt.B: 5 processes are not possible (rule: square); the nearest allowed counts are 4 and 9
}
