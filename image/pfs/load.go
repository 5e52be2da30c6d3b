package pfs

import (
	"bytes"
	"embed"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"ckpt/internal/wording"
	yaml "go.yaml.in/yaml/v3"
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
