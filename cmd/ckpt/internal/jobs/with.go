package jobs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/tune"
	"ckpt/dataset"
	"ckpt/image/plan"
	"ckpt/internal/lazy"
	"ckpt/internal/wording"
)

// mostOtherJob is far more than any file of a job of --with.
const mostOtherJob = 1 << 20

// otherJob is a job of --with: the settings of ckpt layout, and its own.
type otherJob struct {
	ui.Placement
	writePath
	with      string // as the user wrote it
	app, user string
	start     string
	np        int
	mpi       string
	read      bool
	set       *pflag.FlagSet // the settings, by their keys
}

// newOtherJob returns a job with the defaults of ckpt layout.
func newOtherJob(with string) *otherJob {
	o := &otherJob{with: with, set: pflag.NewFlagSet(with, pflag.ContinueOnError)}
	o.set.StringVar(&o.app, "app", "", "")
	o.set.StringVar(&o.user, "user", "", "")
	o.set.StringVar(&o.start, "start", "", "")
	o.set.IntVar(&o.np, "np", 0, "")
	o.set.StringVar(&o.mpi, "mpi", mpi.MPICH.String(), "")
	o.set.BoolVar(&o.read, "read", false, "")
	o.Placement.AddFlags(o.set)
	o.writePath.addFlags(o.set)
	o.addTuningFlags(o.set)
	return o
}

// wrong is an error about the job, in its own words: settings are no flags here.
func (o *otherJob) wrong(err error) error {
	hint := ""
	if h, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		hint = h.Hint()
	}
	if spec, ok := errors.AsType[*dataset.SpecError](err); ok && spec.Reason == dataset.Unreadable {
		return ui.AsNotFound(ui.WithHint(fmt.Errorf("--with %s: %w", o.with, err), hint))
	}
	return ui.BadUsage(fmt.Sprintf("--with %s: %s", o.with, unflagged(err.Error())), unflagged(hint))
}

// flagNames finds the flags in a text, as commands and as libraries write them.
var flagNames = lazy.Regexp(`(^|[\s"(])--([a-z])|\{([a-z-]+)\}`)

// unflagged names settings where a text names flags.
func unflagged(text string) string { return flagNames().ReplaceAllString(text, "$1$2$3") }

// contender reads a job of --with: an application or workload with settings behind it, or
// a file that has both.
func contender(with string) (c tune.Contender, err error) {
	o := newOtherJob(with)
	settings, err := o.settingsOf()
	if err != nil {
		return c, err
	}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if err := o.apply(key, settings[key]); err != nil {
			return c, err
		}
	}
	if o.app == "" {
		return c, ui.BadUsage(fmt.Sprintf("--with %s: the application is missing", with), "add app: bt.C.64, or the path of a workload")
	}
	if c.Case, err = o.toCase(); err != nil {
		return c, o.wrong(err)
	}
	c.User, c.Read = o.user, o.read
	if o.start != "" {
		start, err := ui.ParseDuration("start", o.start)
		if err != nil {
			return c, o.wrong(err)
		}
		c.Start = start.Seconds()
	}
	return c, nil
}

// settingsOf returns the settings of the job by key.
func (o *otherJob) settingsOf() (map[string]string, error) {
	app, rest, more := strings.Cut(o.with, ",")
	settings := map[string]string{"app": app}
	if isYAML(app) {
		if of, err := o.readFile(app); err != nil || of != nil {
			settings = of
			if err != nil {
				return nil, err
			}
		}
	}
	if !more {
		return settings, nil
	}
	return settings, o.addSettings(settings, rest)
}

// addSettings adds what stands behind the application, in place of what a file says.
func (o *otherJob) addSettings(settings map[string]string, list string) error {
	last := ""
	for part := range strings.SplitSeq(list, ",") {
		key, value, ok := strings.Cut(part, "=")
		_, number := strconv.Atoi(part)
		switch {
		case !ok && last == "map" && number == nil:
			settings[last] += "," + part // map=8,8,4
			continue
		case !ok && part == "read":
			value = "true"
		case !ok:
			return ui.BadUsage(fmt.Sprintf("--with %s: %q is no setting", o.with, part), "write settings like start=30s,nodes=2,read")
		}
		settings[key], last = value, key
	}
	return nil
}

// isYAML reports whether an application is a file with all of its settings, perhaps.
func isYAML(app string) bool {
	return strings.HasSuffix(app, ".yaml") || strings.HasSuffix(app, ".yml")
}

// readFile reads the settings of a file; nil if it is a workload.
func (o *otherJob) readFile(name string) (map[string]string, error) {
	f, err := os.Open(name)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("--with %s: %w", o.with, err)
		}
		return nil, ui.AsNotFound(ui.WithHint(fmt.Errorf("--with %s: %w", o.with, dataset.CannotRead("job", name, err)), "give a file, or an application like bt.C.64"))
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, mostOtherJob+1))
	if err == nil && len(src) > mostOtherJob {
		err = fmt.Errorf("longer than %d bytes", mostOtherJob)
	}
	if err != nil {
		return nil, o.wrong(fmt.Errorf("read %s: %w", name, err))
	}
	settings, err := o.parseFile(src)
	if app := settings["app"]; isYAML(app) && !filepath.IsAbs(app) {
		settings["app"] = filepath.Join(filepath.Dir(name), app)
	}
	return settings, err
}

// parseFile reads the text of a file; nil if it is a workload.
func (o *otherJob) parseFile(src []byte) (map[string]string, error) {
	var keys map[string]any
	if err := wording.DecodeYAML(src, &keys); err != nil {
		return nil, o.wrong(ui.WithHint(err, "write a line app: bt.C.64, and settings like start: 30s below it"))
	}
	if _, workload := keys["arrays"]; workload {
		return nil, nil
	}
	settings := make(map[string]string)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		text, ok := scalar(keys[key])
		if !ok {
			return nil, o.wrong(ui.WithHint(fmt.Errorf("key %s: want one value", key), fmt.Sprintf("write %s: and a text or a number", key)))
		}
		settings[key] = text
	}
	return settings, nil
}

// scalar writes a value of YAML as a flag has it.
func scalar(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case int, float64, bool:
		return fmt.Sprint(v), true
	case []any: // map: [8, 8, 4]
		parts := make([]string, len(v))
		for i := range v {
			n, ok := v[i].(int)
			if !ok {
				return "", false
			}
			parts[i] = strconv.Itoa(n)
		}
		return strings.Join(parts, ","), true
	}
	return "", false
}

// apply sets a setting.
func (o *otherJob) apply(key, value string) error {
	name := strings.ReplaceAll(key, "_", "-")
	f := o.set.Lookup(name)
	if f == nil {
		var keys []string
		o.set.VisitAll(func(f *pflag.Flag) { keys = append(keys, f.Name) })
		hint := "the settings are " + strings.Join(keys, ", ")
		if near := ui.Nearest(name, keys); near != "" {
			hint = "did you mean " + near + "?"
		}
		return ui.BadUsage(fmt.Sprintf("--with %s: no setting is called %q", o.with, key), hint)
	}
	if choices := ui.ChoicesOf(f); choices != nil && !slices.Contains(choices, value) {
		return ui.BadUsage(fmt.Sprintf("--with %s: %s %q: want %s", o.with, name, value, strings.Join(choices, ", ")), "")
	}
	if err := o.set.Set(name, value); err != nil {
		kind := map[string]string{"int": "a whole number", "bool": "true or false"}[f.Value.Type()]
		return ui.BadUsage(fmt.Sprintf("--with %s: %s %q: want %s", o.with, name, value, kind), "")
	}
	return nil
}

// toCase plans the job as ckpt layout does.
func (o *otherJob) toCase() (tune.Case, error) {
	if o.np < 0 || o.set.Changed("np") && o.np == 0 {
		return tune.Case{}, fmt.Errorf("np %d: want a positive number", o.np)
	}
	inst, err := dataset.ParseApp(o.app, o.np)
	if err != nil {
		return tune.Case{}, err
	}
	c := tune.Case{Instance: inst, MPI: o.mpi, Whole: true}
	if c.Mapping, err = o.Resolve(inst.NP); err != nil {
		return c, err
	}
	if c.Settings, err = o.settings(); err != nil {
		return c, err
	}
	return c, o.tryPlan(&c)
}

// tryPlan says which setting does not suit the job.
func (o *otherJob) tryPlan(c *tune.Case) error {
	m, err := tune.PlanMemory(c.Instance, c.Mapping, c.MPI)
	if err != nil {
		return err
	}
	s := c.Settings
	s.Header = containerHeader
	_, err = plan.New(m.Sources, s)
	return o.usage(err)
}
