package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ckpt/internal/wording"
	"ckpt/zones"
	"ckpt/zones/global"
)

// An Instance is a workload with class and process count chosen: all sizes are
// numbers. Sizes are of the rank that has the most, unless a function takes a rank.
type Instance struct {
	Workload    *Workload
	Name, Class string
	NP          int
	// Launched is the number of ranks that the job was launched on: NP, unless it was
	// restarted on another number.
	Launched int
	// Iterations is the default count of the class.
	Iterations int
	// Params holds the parameters of the class, p, and the derived ones.
	Params map[string]int64
	// Kinds are the kinds of ranks that hold different arrays; none: all are alike.
	Kinds []KindOfRanks
	// Arrays are in the order of the spec, in which they are allocated.
	Arrays []Array
	// Runtime is the process's own data beyond the arrays, in bytes.
	Runtime int64
	// Epoch is how many iterations an epoch has, after which such an application usually
	// takes a checkpoint; 0: it has no epochs.
	Epoch int
	// File is what is known of the file into which the application stores itself, if
	// anything is.
	File *File
	// Messages are the most messages that one rank sends in one iteration.
	Messages []Message

	shares func() []RankShare // computed once
}

// An Array is one array of one rank.
type Array struct {
	Name  string
	Elem  zones.Elem
	Count int64
	// Rewrite is the share of the array that an iteration rewrites, 0 to 1.
	Rewrite float64
	// Used is the share of the array, from its beginning, that is ever written. The
	// rest stays zero.
	Used float64
	// Filled is the share of its elements that are not zeros of padding, as between the
	// lines of a grid. It matters to codecs only.
	Filled float64
	// Save says that a checkpoint at application level stores the array. Else the
	// application computes it anew after a restart, from those that are stored.
	Save bool
	// Replicated says that the array is the same on all ranks at the end of an iteration.
	Replicated bool
	// Layout is where the elements are of an array that all ranks hold together; nil: each
	// rank has an array of its own.
	Layout *global.Layout
	// Blocks returns what each rank holds of an array of all ranks in an array of its own, of
	// Count elements; nil: there is none.
	Blocks func() (*Blocks, error)
	// Others are where the elements are under other rules that may hold.
	Others []*global.Layout
	// Measured has the bytes of a rank on other numbers of ranks, where no formula is known:
	// Count is then a guess between and beyond them, or the Layout one that agrees with them.
	Measured []MeasuredSize
	// Low and High are the range of the bytes of a rank, on average, where a law gives it.
	Low, High int64

	holders holders // which ranks have the array
}

// Bytes returns the size of the array.
func (a Array) Bytes() int64 { return a.Count * int64(a.Elem.Size()) }

// A Message describes one kind of message that a rank sends.
type Message struct {
	To string
	// Count is per rank and iteration, Bytes per message: the most of any rank.
	Count, Bytes int64
	// Each is how many messages go to each of the peers in an iteration, and Mean the
	// bytes of one, over all ranks.
	Each, Mean float64
	// AnySource says that the receiver takes them in the order in which they come.
	AnySource bool

	peers *peers // nil: not known
}

// Instance evaluates the spec for a class and np processes.
func (w *Workload) Instance(className string, np int) (*Instance, error) {
	return w.InstanceOn(className, np, np)
}

func (w *Workload) instanceOn(className string, launched, np int) (*Instance, error) {
	c, ok := w.spec.Classes[className]
	if !ok {
		className = strings.ToUpper(className)
		c, ok = w.spec.Classes[className]
	}
	if !ok {
		return nil, &SpecError{
			Reason: UnknownClass, Subject: w.Name, Problem: fmt.Sprintf("class %q is not known", className),
			Given: className, Known: w.Classes(),
			hint: "known classes: " + strings.Join(w.Classes(), ", "),
		}
	}
	if !w.spec.Procs.allows(np) {
		return nil, &SpecError{
			Reason: BadProcs, Subject: w.Name + "." + className,
			Problem: fmt.Sprintf("%d processes are not possible (rule: %s)", np, w.spec.Procs),
			hint:    w.spec.Procs.hint(np),
		}
	}
	inst := &Instance{Workload: w, Name: w.Name, Class: className, NP: np, Launched: launched, Iterations: c.Iterations}
	inst.shares = sync.OnceValue(inst.divide)
	if err := inst.evaluate(c); err != nil {
		return nil, &SpecError{
			Reason: BadSpec, Subject: "spec " + inst.String(), Problem: err.Error(),
			hint: "correct the expression, or choose another class or process count", err: err,
		}
	}
	return inst, nil
}

func (inst *Instance) evaluate(c class) error {
	w := inst.Workload
	var err error
	if inst.Params, err = w.paramsOf(c, inst.NP); err != nil {
		return err
	}
	launched, err := w.paramsOf(c, inst.Launched)
	if err != nil {
		return err
	}
	if inst.Kinds, err = w.kindsOf(inst); err != nil {
		return err
	}
	least := int64(minRuntime)
	if w.IsProgram() {
		least = 0
	}
	inst.Runtime = least
	if w.spec.Runtime != nil {
		if inst.Runtime, err = w.spec.Runtime.size(inst.Params); err != nil {
			return fmt.Errorf("runtime: %w", err)
		}
	}
	if inst.Runtime < least {
		return fmt.Errorf("runtime is %d bytes; it must be at least %d", inst.Runtime, least)
	}
	if w.spec.Epoch != nil {
		n, err := w.spec.Epoch.size(inst.Params)
		if err != nil || n < 1 || n > math.MaxInt32 {
			return fmt.Errorf("epoch: %w", cmp.Or(err, fmt.Errorf("it has %d iterations", n)))
		}
		inst.Epoch = int(n)
	}
	if inst.File, err = w.spec.File.instance(inst.Params); err != nil {
		return err
	}
	total := inst.Runtime
	for i := range w.spec.Arrays {
		a := &w.spec.Arrays[i]
		arr, err := a.instance(inst, launched)
		if err == nil && arr.Count > (math.MaxInt64/2-total)/int64(arr.Elem.Size()) {
			err = errors.New("the data of a rank exceeds 2^62 bytes")
		}
		if err != nil {
			return fmt.Errorf("array %s: %w", a.Name, err)
		}
		total += arr.Bytes()
		inst.Arrays = append(inst.Arrays, arr)
	}
	for i := range w.spec.Messages {
		msg, err := w.spec.Messages[i].instance(inst)
		if err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
		inst.Messages = append(inst.Messages, msg)
	}
	return nil
}

func (a *arraySpec) instance(inst *Instance, launched map[string]int64) (out Array, err error) {
	out = Array{Name: a.Name, Elem: a.Elem.Elem, Save: a.Save == nil || *a.Save, Replicated: a.Replicated}
	if err = out.hold(a, inst, launched); err != nil {
		return out, err
	}
	for _, field := range []struct {
		name string
		from *expression
		to   *float64
	}{{"rewrite", a.Rewrite, &out.Rewrite}, {"used", a.Used, &out.Used}, {"filled", a.Filled, &out.Filled}} {
		if *field.to, err = field.from.share(inst.Params); err != nil {
			return out, fmt.Errorf("%s: %w", field.name, err)
		}
	}
	return out, nil
}

// instance evaluates the spec of a file, which may be nil.
func (f *fileSpec) instance(params map[string]int64) (out *File, err error) {
	if f == nil {
		return nil, nil
	}
	out = &File{}
	for _, field := range []struct {
		name string
		from *expression
		to   *int64
	}{{"header", f.Header, &out.Header}, {"writes", f.Writes, &out.Writes}, {"collective", f.Collective, &out.Collective}} {
		if field.from == nil {
			continue
		}
		if *field.to, err = field.from.size(params); err != nil {
			return nil, fmt.Errorf("file: %s: %w", field.name, err)
		}
	}
	return out, nil
}

func (m *messageSpec) instance(inst *Instance) (out Message, err error) {
	out = Message{To: m.To, AnySource: m.AnySource}
	if out.Count, err = m.Count.size(inst.Params); err != nil {
		return out, fmt.Errorf("count: %w", err)
	}
	if out.Bytes, err = m.Bytes.size(inst.Params); err != nil {
		return out, fmt.Errorf("bytes: %w", err)
	}
	out.Mean = float64(out.Bytes)
	if m.Mean != nil {
		if out.Mean, err = m.Mean.number(inst.Params); err != nil {
			return out, fmt.Errorf("mean: %w", err)
		}
	}
	if m.Peers == nil {
		return out, nil
	}
	if out.peers, err = m.Peers.instance(inst.NP, inst.Params); err != nil {
		return out, fmt.Errorf("peers: %w", err)
	}
	if n := out.peers.degree(); n > 0 {
		out.Each = float64(out.Count) / float64(n)
	}
	if m.Each != nil {
		if out.Each, err = m.Each.number(inst.Params); err != nil {
			return out, fmt.Errorf("each: %w", err)
		}
	}
	return out, nil
}

// DataBytes returns the size of the data zone of the rank that has the most: the arrays and
// the runtime constant.
func (inst *Instance) DataBytes() int64 {
	most := int64(0)
	for _, s := range inst.Shares() {
		most = max(most, s.Bytes)
	}
	return most
}

// SavedBytes returns the size of the arrays that all ranks together have to save; those
// that are the same on all ranks count once.
func (inst *Instance) SavedBytes() int64 {
	var sum int64
	for _, a := range inst.Arrays {
		sum += a.SavedBytes(inst.NP)
	}
	return sum
}

// SavedBytes returns what np ranks together have to save of the array.
func (a Array) SavedBytes(np int) int64 {
	switch {
	case !a.Save:
		return 0
	case a.Replicated:
		return a.Bytes()
	}
	return a.Total(np)
}

// String returns the name in the manner of NPB, of the job as it was launched: bt.B.4.
func (inst *Instance) String() string {
	if inst.Class == "-" { // a program without arguments
		return fmt.Sprintf("%s.%d", inst.Name, inst.Launched)
	}
	return fmt.Sprintf("%s.%s.%d", inst.Name, inst.Class, inst.Launched)
}

// ParseApp reads an application as users write it: "bt.B.4", "bt.B" with np,
// "path/to/spec.yaml" or "path/to/spec.yaml:B" with np. An np of 0 means that
// it was not given; one that contradicts the name is an error. The class of a
// spec that has only one may be left out.
func ParseApp(s string, np int) (*Instance, error) {
	name, className, procs, err := splitApp(s)
	if err != nil {
		return nil, err
	}
	w, err := LoadWorkload(name)
	if err != nil {
		return nil, err
	}
	switch {
	case procs == 0:
		procs = np
	case np != 0 && np != procs:
		return nil, &SpecError{
			Reason: Contradiction, Subject: fmt.Sprintf("application %q", s),
			Problem: wording.Sprintf("the name says %d processes, {np} says %d", procs, np),
			hint:    "give the number of processes once",
		}
	}
	if className == "" {
		classes := w.Classes()
		if len(classes) > 1 {
			return nil, &SpecError{
				Reason: NoClass, Subject: fmt.Sprintf("application %q", s), Problem: "the class is missing",
				hint: "known classes: " + strings.Join(classes, ", ") + "; write " + example(s, classes[0]),
			}
		}
		className = classes[0]
	}
	if procs == 0 {
		return nil, &SpecError{
			Reason: NoProcs, Subject: fmt.Sprintf("application %q", s), Problem: "the number of processes is missing",
			hint: wording.Sprintf("write it as in bt.B.4, or add {np} 4"),
		}
	}
	return w.Instance(className, procs)
}

// WorkloadName is the name or path of the workload in an application as users write it.
func WorkloadName(app string) string {
	name, _, _, _ := splitApp(app)
	return name
}

func example(s, class string) string {
	if IsPath(s) {
		return s + ":" + class
	}
	return s + "." + class
}

// splitApp splits the text; class "" and procs 0 mean "not given".
func splitApp(s string) (name, class string, procs int, err error) {
	if i := strings.LastIndexByte(s, ':'); i >= 0 && IsPath(s[:i]) {
		return s[:i], s[i+1:], 0, nil
	}
	if IsPath(s) {
		return s, "", 0, nil
	}
	parts := strings.Split(s, ".")
	bad := &SpecError{
		Reason: UnknownApp, Subject: fmt.Sprintf("application %q", s), Problem: "want name.class.processes",
		hint: "for example bt.B.4; known applications: " + strings.Join(Names(), ", "),
	}
	if len(parts) > 3 || slices.Contains(parts, "") {
		return "", "", 0, bad
	}
	name = parts[0]
	if len(parts) > 1 {
		class = parts[1]
	}
	if len(parts) > 2 {
		if procs, err = strconv.Atoi(parts[2]); err != nil || procs < 1 {
			return "", "", 0, bad
		}
	}
	return name, class, procs, nil
}
