package ui

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/pflag"

	"ckpt/coordinator/tune"
	"ckpt/dataset"
	"ckpt/image/pfs"
	"ckpt/predict"
)

// StorageOptions are the flags of a prediction on a described storage.
type StorageOptions struct {
	On         string // empty if it is not given
	background string
	flag       string
}

// AddFlags adds them; the first may have another name.
func (o *StorageOptions) AddFlags(f *pflag.FlagSet, flag, usage string) {
	o.flag = flag
	f.StringVar(&o.On, flag, "", usage+": "+strings.Join(pfs.Presets(), ", ")+", or a file of ckpt bench storage")
	Choices(f, flag, pfs.Presets()...)
	f.StringVar(&o.background, "background", "", "with --"+flag+": share of the storage that other jobs take, like 20% (default none)")
}

// Load reads the description.
func (o *StorageOptions) Load() (*pfs.System, error) {
	if o.On == "" {
		return nil, Missing("--"+o.flag, pfs.Presets()[0])
	}
	return LoadStorage(o.flag, o.On)
}

// Background is the share of the storage that others take.
func (o *StorageOptions) Background() (float64, error) {
	switch {
	case o.background == "":
		return 0, nil
	case o.On == "":
		return 0, BadUsage("--background "+o.background+": only a described storage has other jobs", "add --"+o.flag)
	}
	share, err := ParseShare("--background", o.background)
	if err == nil && !(share >= 0 && share < 1) {
		err = BadUsage("--background "+o.background+": want a share from 0, below 100%", "")
	}
	return share, err
}

// LoadStorage reads the description that a flag names.
func LoadStorage(flag, name string) (*pfs.System, error) {
	s, err := pfs.Load(name)
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, dataset.CannotRead("description", name, err)
	case errors.Is(err, fs.ErrPermission):
		return nil, err
	}
	hint := "docs/STORAGE.md has the keys of a description"
	if isName(name) {
		hint = "give a preset, or a file like ./scratch.yaml"
	}
	return nil, BadUsage(fmt.Sprintf("--%s %s: %s", flag, name, trimmed(name, err)), hint)
}

// isName reports whether a description names a preset, as package pfs tells it from a
// file.
func isName(name string) bool {
	return !strings.Contains(name, "/") && !strings.HasSuffix(name, ".yaml") && !strings.HasSuffix(name, ".yml")
}

// trimmed leaves out what the flag says already.
func trimmed(name string, err error) string {
	text := err.Error()
	for _, prefix := range []string{"storage " + name + ": ", fmt.Sprintf("storage %q: ", name)} {
		text = strings.TrimPrefix(text, prefix)
	}
	return text
}

// ObjectsOf is what a forecast takes of a storage of objects.
func ObjectsOf(f *tune.Forecast) predict.Objects {
	return predict.Objects{Requests: (*predict.Requests)(f.Requests), Bill: (*predict.Bill)(f.Bill)}
}
