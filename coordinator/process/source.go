package process

import (
	_ "embed" // the sources
	"fmt"
	"maps"
	"slices"
	"strings"
)

//go:embed client/c/ckpt.h
var header string

//go:embed client/c/ckpt.hpp
var plusplus string

//go:embed client/fortran/ckpt.f90
var fortran string

//go:embed client/python/ckpt.py
var python string

//go:embed client/veloc/veloc.h
var veloc string

//go:embed client/pmpi/ckpt_pmpi.c
var pmpi string

// sources has the source for each language. The sources for c++, fortran and veloc
// include the one for c.
var sources = map[string]string{
	"c": header, "c++": plusplus, "fortran": fortran, "pmpi": pmpi, "python": python, "veloc": veloc,
}

// Languages returns the languages that Source knows, sorted.
func Languages() []string { return slices.Sorted(maps.Keys(sources)) }

// Source returns what a program in the language includes.
func Source(language string) (string, error) {
	text, ok := sources[language]
	if !ok {
		return "", fmt.Errorf("unknown language %q (want %s)", language, strings.Join(Languages(), ", "))
	}
	return text, nil
}
