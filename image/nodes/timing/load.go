package timing

import (
	"bytes"
	"embed"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"ckpt/image/pfs"
	"ckpt/internal/yamldoc"
)

//go:embed machines/*.yaml
var machines embed.FS

// description is a Machine as its YAML has it.
type description struct {
	Name   string `yaml:"name"`
	Title  string `yaml:"title"`
	Source string `yaml:"source"`
	Nodes  int    `yaml:"nodes"`
	Cores  int    `yaml:"cores"`
	Memory struct {
		Access      pfs.Duration `yaml:"access"`
		Persist     pfs.Duration `yaml:"persist"`
		Bandwidth   pfs.Rate     `yaml:"bandwidth"`
		Divisor     float64      `yaml:"divisor"` // default 1
		Line        int64        `yaml:"line"`    // default 64
		Outstanding int          `yaml:"outstanding"`
	} `yaml:"memory"`
	Network struct {
		Rate    pfs.Rate     `yaml:"rate"`
		Latency pfs.Duration `yaml:"latency"`
		Local   pfs.Duration `yaml:"local"`
		Copy    pfs.Rate     `yaml:"copy"`
	} `yaml:"network"`
	Manager struct {
		Local  pfs.Duration `yaml:"local"`
		Remote pfs.Duration `yaml:"remote"`
	} `yaml:"manager"`
	Coding struct {
		Xor pfs.Rate `yaml:"xor"`
		RS  pfs.Rate `yaml:"rs"`
	} `yaml:"coding"`
	Step    pfs.Duration `yaml:"step"`
	Pixel   pfs.Duration `yaml:"pixel"`
	Storage string       `yaml:"storage"` // a preset, or a file beside this one
	// Origins say of numbers where they are from: printed, measured, derived or assumed.
	Origins map[string]string `yaml:"origins"`
}

// Machines returns the names of the built-in descriptions, in order.
func Machines() []string { return pfs.Names(machines, "machines") }

// maxSource is far more than any description.
const maxSource = 1 << 20

// Load returns the built-in description of that name, or reads the file of that path. A
// path contains a slash or ends in .yaml or .yml.
func Load(nameOrPath string) (*Machine, error) {
	if isPath(nameOrPath) {
		f, err := os.Open(nameOrPath)
		if err != nil {
			return nil, fmt.Errorf("machine: %w", err)
		}
		defer f.Close()
		return read(f, nameOrPath, filepath.Dir(nameOrPath))
	}
	src, err := machines.ReadFile(path.Join("machines", nameOrPath+".yaml"))
	if err != nil {
		return nil, fmt.Errorf("machine %q: no such description (want one of %s, or a file like ./cluster.yaml)", nameOrPath, strings.Join(Machines(), ", "))
	}
	return read(bytes.NewReader(src), nameOrPath, ".")
}

func isPath(s string) bool {
	return strings.Contains(s, "/") || strings.HasSuffix(s, ".yaml") || strings.HasSuffix(s, ".yml")
}

// read reads a description and that of its storage, which a relative path finds from
// dir.
func read(r io.Reader, name, dir string) (*Machine, error) {
	src, err := io.ReadAll(io.LimitReader(r, maxSource+1))
	if err != nil {
		return nil, fmt.Errorf("machine %s: %w", name, err)
	}
	if len(src) > maxSource {
		return nil, fmt.Errorf("machine %s: longer than %d bytes", name, maxSource)
	}
	d := new(description)
	if err := d.decode(src); err != nil {
		return nil, fmt.Errorf("machine %s: %w", name, err)
	}
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("machine %s: %w", name, err)
	}
	storage := d.Storage
	if isPath(storage) && !filepath.IsAbs(storage) {
		storage = filepath.Join(dir, storage)
		if !strings.Contains(storage, "/") {
			storage = "./" + storage
		}
	}
	m := d.machine()
	if m.Storage, err = pfs.Load(storage); err != nil {
		return nil, fmt.Errorf("machine %s: %w", name, err)
	}
	if m.Storage.Targets.Local {
		return nil, fmt.Errorf("machine %s: storage %s: each node has its own, want one that all share", name, m.Storage.Name)
	}
	return m, nil
}

// decode reads a description and fills in the defaults.
func (d *description) decode(src []byte) error {
	if err := yamldoc.Decode(src, d); err != nil {
		return err
	}
	if d.Memory.Divisor == 0 {
		d.Memory.Divisor = 1
	}
	if d.Memory.Line == 0 {
		d.Memory.Line = 64
	}
	if d.Memory.Outstanding == 0 {
		d.Memory.Outstanding = 1
	}
	return nil
}

// check names the first number that cannot be.
func (d *description) check() error {
	for _, c := range []struct {
		field string
		ok    bool
		want  string
	}{
		{"name", d.Name != "", "missing"},
		{"nodes", d.Nodes >= 1 && d.Nodes <= 1<<14, "must be 1 to 16384"},
		{"cores", d.Cores >= 2 && d.Cores <= 1<<12, "must be 2 to 4096"},
		{"memory.bandwidth", d.Memory.Bandwidth > 0, "must be more than 0"},
		{"memory.divisor", d.Memory.Divisor >= 1 && d.Memory.Divisor <= 1e6, "must be at least 1"},
		{"memory.line", d.Memory.Line >= 1 && d.Memory.Line <= 1<<20, "must be 1 to 1048576"},
		{"memory.outstanding", d.Memory.Outstanding >= 1 && d.Memory.Outstanding <= 1<<20, "must be at least 1"},
		{"network.rate", d.Network.Rate > 0, "must be more than 0"},
		{"network.copy", d.Network.Copy > 0, "must be more than 0"},
		{"coding.xor", d.Coding.Xor > 0, "must be more than 0"},
		{"coding.rs", d.Coding.RS > 0, "must be more than 0"},
		{"storage", d.Storage != "", "missing"},
	} {
		if !c.ok {
			return fmt.Errorf("%s: %s", c.field, c.want)
		}
	}
	return nil
}

func (d *description) machine() *Machine {
	m := &Machine{Name: d.Name, Title: d.Title, Source: d.Source, Nodes: d.Nodes, Cores: d.Cores, Step: float64(d.Step), Pixel: float64(d.Pixel)}
	m.Memory = Memory{
		Access: float64(d.Memory.Access), Persist: float64(d.Memory.Persist),
		Bandwidth: float64(d.Memory.Bandwidth), Divisor: d.Memory.Divisor, Line: d.Memory.Line, Outstanding: d.Memory.Outstanding,
	}
	m.Network = Network{
		Rate: float64(d.Network.Rate), Latency: float64(d.Network.Latency),
		Local: float64(d.Network.Local), Copy: float64(d.Network.Copy),
	}
	m.Manager = Manager{Local: float64(d.Manager.Local), Remote: float64(d.Manager.Remote)}
	m.Coding = Coding{Xor: float64(d.Coding.Xor), RS: float64(d.Coding.RS)}
	return m
}
