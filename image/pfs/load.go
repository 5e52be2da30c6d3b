package pfs

import (
	"bytes"
	"embed"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"ckpt/internal/wording"
)

//go:embed presets/*.yaml
var presets embed.FS

// maxSource is far more than any description.
const maxSource = 1 << 20

// Presets returns the names of the built-in descriptions, in order.
func Presets() []string { return Names(presets, "presets") }

// Names returns the names of the descriptions in a directory of the program, in order.
func Names(files embed.FS, dir string) []string {
	entries, err := files.ReadDir(dir)
	if err != nil {
		panic("pfs: " + err.Error())
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	return names
}

// Load returns the preset of that name, or reads the file of that path. A path
// contains a slash or ends in .yaml or .yml.
func Load(nameOrPath string) (*System, error) {
	src, err := presets.ReadFile(path.Join("presets", nameOrPath+".yaml"))
	if strings.Contains(nameOrPath, "/") || strings.HasSuffix(nameOrPath, ".yaml") || strings.HasSuffix(nameOrPath, ".yml") {
		src, err = readFile(nameOrPath)
	} else if err != nil {
		return nil, fmt.Errorf("storage %q: no such preset (want one of %s, or a file like ./scratch.yaml)", nameOrPath, strings.Join(Presets(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("storage: %w", err)
	}
	s, err := Read(bytes.NewReader(src))
	if err != nil {
		return nil, fmt.Errorf("storage %s: %w", nameOrPath, err)
	}
	return s, nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSource+1))
}

// Read reads a description, fills in the defaults and checks it.
func Read(r io.Reader) (*System, error) {
	src, err := io.ReadAll(io.LimitReader(r, maxSource+1))
	if err != nil {
		return nil, err
	}
	if len(src) > maxSource {
		return nil, fmt.Errorf("longer than %d bytes", maxSource)
	}
	s := new(System)
	if err := wording.DecodeYAML(src, s); err != nil {
		return nil, err
	}
	s.setDefaults()
	if err := s.Check(); err != nil {
		return nil, err
	}
	return s, nil
}

// Encode writes the description as YAML that Read reads back as the same.
func (s *System) Encode(w io.Writer) error {
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(s); err != nil {
		return err
	}
	return e.Close()
}

// Limits of the numbers of a description: far beyond any system, and far from
// the end of what a float can add up.
const (
	maxRate  = 1e18 // bytes per second
	maxTime  = 1e6  // seconds
	maxCount = 1 << 20
	maxBytes = 1 << 50
)

// Check says what is wrong with a description. Numbers have their defaults
// already.
func (s *System) Check() error {
	if s.Name == "" {
		return fmt.Errorf("name: missing")
	}
	if err := checkNumbers("", reflect.ValueOf(s).Elem()); err != nil {
		return err
	}
	for _, c := range []struct {
		bad    bool
		reason string
	}{
		{s.Targets.Count < 1, "targets.count: must be at least 1"},
		{s.Targets.Rate <= 0, "targets.rate: must be more than 0"},
		{s.Routers.Count > 0 && s.Routers.Rate == 0, "routers.rate: missing"},
		{s.Routers.Count == 0 && s.Routers.Rate > 0, "routers.count: missing"},
		{s.Servers.Count > s.Targets.Count, fmt.Sprintf("servers.count: %d, more than the %d targets", s.Servers.Count, s.Targets.Count)},
		{s.Servers.WriteBehind && s.Servers.Cache == 0, "servers.cache: missing: write_behind needs one"},
		{s.Locks.Kind != NoLocks && s.Locks.Kind != ExtentToEnd, fmt.Sprintf("locks.kind: %q: no such kind, want none or extent-to-end", s.Locks.Kind)},
		{s.RPC < 4096, fmt.Sprintf("rpc: %s: must be at least 4KiB", s.RPC)},
		{len(s.Targets.Free) > 1 && len(s.Targets.Free) != s.Targets.Count, fmt.Sprintf("targets.free: %d numbers for %d targets: give one, or one for each", len(s.Targets.Free), s.Targets.Count)},
		{s.Targets.Stragglers.Factor > 1, "targets.stragglers.factor: must be at most 1"},
		{s.Targets.Stragglers.Share > 1, "targets.stragglers.share: must be at most 1"},
	} {
		if c.bad {
			return fmt.Errorf("%s", c.reason)
		}
	}
	if err := checkSharing(s.Targets.Sharing); err != nil {
		return err
	}
	for _, err := range []error{s.Scheduler.Check(), s.checkObjects(), s.Prices.check(s.Objects())} {
		if err != nil {
			return err
		}
	}
	return s.checkOrigins()
}

func checkSharing(table []Sharing) error {
	last := 0
	for i, e := range table {
		switch {
		case e.Writers <= last:
			return fmt.Errorf("targets.sharing: entry %d: writers must ascend from 1", i+1)
		case e.Factor <= 0:
			return fmt.Errorf("targets.sharing: entry %d: factor must be more than 0", i+1)
		}
		last = e.Writers
	}
	return nil
}

// checkNumbers checks that every number lies within the limits of its kind.
func checkNumbers(path string, v reflect.Value) error {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
			if err := checkNumbers(strings.TrimPrefix(path+"."+key, "."), v.Field(i)); err != nil {
				return err
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := checkNumbers(path, v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			if err := checkNumbers(path+"."+k.String(), v.MapIndex(k)); err != nil {
				return err
			}
		}
	case reflect.Int, reflect.Int64, reflect.Float64:
		return checkNumber(path, v)
	}
	return nil
}

func checkNumber(path string, v reflect.Value) error {
	// Below the least, times would leave the range of numbers.
	x, least, most := 0.0, 0.0, 0.0
	switch n := v.Interface().(type) {
	case Rate:
		x, least, most = float64(n), 1, maxRate
	case Duration:
		x, most = float64(n), maxTime
	case Bytes:
		x, most = float64(n), maxBytes
	case int:
		x, most = float64(n), maxCount
	case float64:
		x, least, most = n, 1e-6, maxRate
	}
	if x > 0 && x < least {
		return fmt.Errorf("%s: %v: must be 0 or at least %v", path, v.Interface(), least)
	}
	if !(x >= 0 && x <= most) || math.IsInf(x, 0) {
		return fmt.Errorf("%s: %v: must be 0 to %v", path, v.Interface(), most)
	}
	return nil
}

// checkOrigins checks that origins are of fields.
func (s *System) checkOrigins() error {
	known := make(map[string]bool)
	fieldsOf("", reflect.TypeFor[System](), known)
	for _, key := range slices.Sorted(maps.Keys(s.Origins)) {
		if !known[key] {
			return fmt.Errorf("origins: %s: no such field", key)
		}
	}
	return nil
}

// fieldsOf collects the keys of all fields below a type, groups as well.
func fieldsOf(path string, t reflect.Type, known map[string]bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		key = strings.TrimPrefix(path+"."+key, ".")
		known[key] = true
		if f.Type.Kind() == reflect.Struct {
			fieldsOf(key, f.Type, known)
		}
	}
}
