package process

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
)

//go:embed client
var client embed.FS

// sources names the files whose texts, one after the other, are the source for a language. Those
// for c++, fortran and other libraries include the one for c.
var sources = map[string][]string{
	"c": {"c/ckpt.h"}, "c++": {"c/ckpt.hpp"}, "fortran": {"fortran/ckpt.f90"}, "python": {"python/ckpt.py"},
	"pmpi": {"pmpi/ckpt_pmpi.c"},
	"fti":  {"shim/shim.h", "fti/fti.h"}, "fti-fortran": {"fti/fti.f90"},
	"scr": {"shim/shim.h", "scr/scr.h"}, "scr-fortran": {"scr/scrf.h"},
	"veloc": {"shim/shim.h", "veloc/veloc.h"}, "veloc-c++": {"veloc/veloc.hpp"},
	"view c": {"view/ckpt_view.h"}, "view python": {"view/ckpt_view.py"},
}

// Languages returns the languages that Source knows, sorted.
func Languages() []string { return slices.Sorted(maps.Keys(sources)) }

// Source returns what a program in the language includes.
func Source(language string) (string, error) {
	files, ok := sources[language]
	if !ok {
		return "", fmt.Errorf("unknown language %q (want %s)", language, strings.Join(Languages(), ", "))
	}
	var text strings.Builder
	for _, name := range files {
		b, err := client.ReadFile("client/" + name)
		if err != nil {
			return "", err
		}
		text.Write(b)
	}
	return text.String(), nil
}
