package timing

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// good is a description that lacks nothing.
const good = `name: x
nodes: 4
cores: 8
memory: {access: 350ns, bandwidth: 6GB/s}
network: {rate: 12.5GB/s, copy: 8GB/s, latency: 2us}
coding: {xor: 10GB/s, rs: 5GB/s}
storage: pvfs
`

// TestLoad reads the built-in descriptions. Every group of numbers says where it is
// from.
func TestLoad(t *testing.T) {
	for _, name := range Machines() {
		m := mustLoad(t, name)
		if m.Name != name || m.Title == "" || m.Source == "" || m.Storage == nil || m.Storage.Name != name {
			t.Errorf("%s: %+v", name, m)
		}
		src, err := machines.ReadFile("machines/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		d := new(description)
		if err := d.decode(src); err != nil {
			t.Fatal(err)
		}
		for _, group := range []string{"nodes", "cores", "memory", "network.rate", "network.latency", "manager", "coding", "step", "pixel"} {
			if d.Origins[group] == "" {
				t.Errorf("%s does not say where %s is from", name, group)
			}
		}
	}
	m := mustLoad(t, "lap06")
	if m.Memory != (Memory{600e-9, 2000e-9, 37e9, 4, 64, 16}) || m.Nodes != 6 || math.Abs(m.Step-5e-9) > 1e-20 {
		t.Errorf("lap06 is %+v", m)
	}
}

// TestLoadFile reads a description beside that of its storage.
func TestLoadFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("scratch.yaml", "name: ours\ntargets: {count: 1, rate: 1GB/s}\n")
	m, err := Load(write("cluster.yaml", strings.ReplaceAll(good, "pvfs", "scratch.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	if m.Storage.Name != "ours" || m.Memory.Line != 64 || m.Memory.Outstanding != 1 || m.Memory.Divisor != 1 || m.Network.Latency != 2e-6 {
		t.Errorf("%+v", m)
	}
	mustRun(t, Blocks{Requests: 100, Bytes: 100, Write: true}, Setup{Machine: m, Cached: true})
	for _, c := range []struct{ from, to, want string }{
		{"nodes: 4", "nodes: 0", "nodes: must be 1 to"},
		{"cores: 8", "cores: 1", "cores: must be 2 to"},
		{"bandwidth: 6GB/s", "bandwidth: fast", "invalid rate"},
		{"bandwidth: 6GB/s", "divisor: 4", "memory.bandwidth: must be more than 0"},
		{"access: 350ns", "access: soon", "want one like 0.5ms"},
		{"access: 350ns", "divisor: .nan", "memory.divisor"},
		{"rate: 12.5GB/s, ", "", "network.rate"},
		{"copy: 8GB/s, ", "", "network.copy"},
		{"rs: 5GB/s", "rs: 0", "coding.rs"},
		{"storage: pvfs", "", "storage: missing"},
		{"storage: pvfs", "storage: tape", "no such preset"},
		{"storage: pvfs", "storage: ./none.yaml", "none.yaml"},
		{"storage: pvfs", "storage: local-nvme", "each node has its own"},
		{"nodes: 4", "nodes: 4\nnodes: 5", "already"},
		{"nodes: 4", "speed: 4", "field speed not found"},
		{good, "", "empty"},
		{"name: x", "", "name: missing"},
	} {
		path := write("bad.yaml", strings.Replace(good, c.from, c.to, 1))
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "bad.yaml") {
			t.Errorf("%q in place of %q: %v, want %q", c.to, c.from, err, c.want)
		}
	}
	if _, err := Load("./nothing.yaml"); err == nil {
		t.Error("a file was read that is not there")
	}
}

// TestDocs finds every key of a description in the documentation.
func TestDocs(t *testing.T) {
	b, err := os.ReadFile("../../../docs/TIERS.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	var look func(of reflect.Type)
	look = func(of reflect.Type) {
		for f := range of.Fields() {
			key := f.Tag.Get("yaml")
			if f.Type.Kind() == reflect.Struct {
				look(f.Type)
			}
			if found++; !strings.Contains(string(b), key) {
				t.Errorf("%s is not in docs/TIERS.md", key)
			}
		}
	}
	look(reflect.TypeFor[description]())
	if found < 20 {
		t.Errorf("only %d keys were found", found)
	}
}
